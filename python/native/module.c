/*
 * module — the extension `millrace._native`.
 */
#include "python/native/array.h"
#include "python/native/loader_type.h"

static int module_exec(PyObject *module)
{
    struct native_state *state = PyModule_GetState(module);
    state->array_type = array_type_create(module);
    state->loader_type = state->array_type ? loader_type_create(module) : NULL;
    return state->loader_type && PyModule_AddType(module, state->array_type) == 0
               ? PyModule_AddType(module, state->loader_type)
               : -1;
}

static int module_traverse(PyObject *module, visitproc visit, void *arg)
{
    struct native_state *state = PyModule_GetState(module);
    Py_VISIT(state->array_type);
    Py_VISIT(state->loader_type);
    return 0;
}

static int module_clear(PyObject *module)
{
    struct native_state *state = PyModule_GetState(module);
    Py_CLEAR(state->array_type);
    Py_CLEAR(state->loader_type);
    return 0;
}

struct native_state *native_state_of(PyTypeObject *type)
{
    return PyType_GetModuleState(type);
}

PyMODINIT_FUNC PyInit__native(void);

PyMODINIT_FUNC PyInit__native(void)
{
    static PyModuleDef_Slot slots[] = {{Py_mod_exec, module_exec}, {0}};
    static struct PyModuleDef definition = {.m_base = PyModuleDef_HEAD_INIT,
                                            .m_name = "millrace._native",
                                            .m_size = sizeof(struct native_state),
                                            .m_slots = slots,
                                            .m_traverse = module_traverse,
                                            .m_clear = module_clear};
    return PyModuleDef_Init(&definition);
}
