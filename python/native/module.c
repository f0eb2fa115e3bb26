/*
 * module — the extension `millrace._native`.
 */
#include "python/native/array.h"
#include "python/native/communicator_type.h"
#include "python/native/dataset_type.h"
#include "python/native/devices.h"
#include "python/native/image_levels.h"
#include "python/native/loader_type.h"
#include "python/native/reader_type.h"
#include "python/native/sample_encoder.h"
#include "python/native/saver_type.h"

/* Creates a type and adds it to the module. The reference stays in the state. */
static int add_type(PyObject *module, PyTypeObject *(*create)(PyObject *module),
                    PyTypeObject **ret_type)
{
    *ret_type = create(module);
    return *ret_type ? PyModule_AddType(module, *ret_type) : -1;
}

static int module_exec(PyObject *module)
{
    struct native_state *state = PyModule_GetState(module);
    return add_type(module, array_type_create, &state->array_type) ||
                   add_type(module, loader_type_create, &state->loader_type) ||
                   add_type(module, dataset_type_create, &state->dataset_type) ||
                   add_type(module, communicator_type_create, &state->communicator_type) ||
                   add_type(module, saver_type_create, &state->saver_type) ||
                   add_type(module, reader_type_create, &state->reader_type)
               ? -1
               : 0;
}

static int module_traverse(PyObject *module, visitproc visit, void *arg)
{
    struct native_state *state = PyModule_GetState(module);
    Py_VISIT(state->array_type);
    Py_VISIT(state->loader_type);
    Py_VISIT(state->dataset_type);
    Py_VISIT(state->communicator_type);
    Py_VISIT(state->saver_type);
    Py_VISIT(state->reader_type);
    return 0;
}

static int module_clear(PyObject *module)
{
    struct native_state *state = PyModule_GetState(module);
    Py_CLEAR(state->array_type);
    Py_CLEAR(state->loader_type);
    Py_CLEAR(state->dataset_type);
    Py_CLEAR(state->communicator_type);
    Py_CLEAR(state->saver_type);
    Py_CLEAR(state->reader_type);
    return 0;
}

struct native_state *native_state_of(PyTypeObject *type)
{
    return PyType_GetModuleState(type);
}

PyMODINIT_FUNC PyInit__native(void);

PyMODINIT_FUNC PyInit__native(void)
{
    static PyMethodDef methods[] = {
        {"open_device", open_device, METH_O, NULL},
        {"image_levels", image_levels, METH_VARARGS, NULL},
        {"encode_samples", encode_samples, METH_VARARGS, NULL},
        {0},
    };
    static PyModuleDef_Slot slots[] = {{Py_mod_exec, module_exec}, {0}};
    static struct PyModuleDef definition = {.m_base = PyModuleDef_HEAD_INIT,
                                            .m_name = "millrace._native",
                                            .m_size = sizeof(struct native_state),
                                            .m_methods = methods,
                                            .m_slots = slots,
                                            .m_traverse = module_traverse,
                                            .m_clear = module_clear};
    return PyModuleDef_Init(&definition);
}
