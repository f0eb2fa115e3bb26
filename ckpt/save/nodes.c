#include "ckpt/save/nodes.h"

#include "base/os/machine.h"
#include "ckpt/collective.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct node_name {
    char text[CKPT_NODE_BYTES_MAX];
};

static int name_node(const struct ckpt_saver_options *options, struct node_name *ret_name,
                     struct err *err)
{
    char host[MACHINE_HOST_ID_BYTES];
    const char *name = options->node ? options->node : machine_host_id(host);
    if (strlen(name) >= sizeof ret_name->text)
        return err_set(err, -ENAMETOOLONG, "the name of a node is too long: %.100s...", name);
    strcpy(ret_name->text, name);
    return 0;
}

static void compare_names(struct nodes *nodes, const struct node_name *names)
{
    nodes->count = 0;
    for (int r = 0; r < nodes->all->ranks; r++) {
        int first = 0;
        while (strcmp(names[first].text, names[r].text) != 0)
            first++;
        nodes->first_of[r] = first;
        nodes->count += first == r;
    }
}

static int group(struct nodes *nodes, const struct ckpt_saver_options *options, struct err *err)
{
    static const char what[] = "identifying the nodes";
    struct comm *all = nodes->all;
    struct node_name *names = calloc((size_t)all->ranks, sizeof *names);
    int status = names
                     ? name_node(options, &names[all->rank], err)
                     : err_set(err, -ENOMEM, "out of memory for the names of %d nodes", all->ranks);
    status = collective_agree(all, status, what, err);
    if (status) {
        free(names);
        return status;
    }
    status = collective_gather(all, names, sizeof *names, what, err);
    if (status) {
        comm_retain(names);
        return status;
    }
    for (int r = 0; r < all->ranks && !status; r++)
        if (!memchr(names[r].text, '\0', sizeof names[r].text))
            status = err_set(err, -EPROTO, "the node name from rank %d is not terminated", r);
    if (!status)
        compare_names(nodes, names);
    free(names);
    return status;
}

int nodes_init(struct nodes *nodes, const struct ckpt_saver_options *options, struct err *err)
{
    struct comm *from = options->comm;
    *nodes = (struct nodes){.count = 1};
    int status = from ? from->ops->split(from, 0, from->rank, &nodes->all, err)
                      : comm_self_open(&nodes->all, err);
    if (status)
        return status;
    nodes->node = nodes->all;
    nodes->first_of = calloc((size_t)nodes->all->ranks, sizeof *nodes->first_of);
    if (!nodes->first_of)
        status = err_set(err, -ENOMEM, "out of memory for %d ranks", nodes->all->ranks);
    status = collective_agree(nodes->all, status, "opening the checkpoint folder", err);
    if (!status && options->per_node)
        status = group(nodes, options, err);
    if (!status && nodes->count > 1)
        status = nodes->all->ops->split(nodes->all, nodes->first_of[nodes->all->rank],
                                        nodes->all->rank, &nodes->node, err);
    return status;
}

void nodes_deinit(struct nodes *nodes)
{
    if (nodes->node != nodes->all)
        comm_close(nodes->node);
    comm_close(nodes->all);
    free(nodes->first_of);
    *nodes = (struct nodes){0};
}

bool nodes_is_first(const struct nodes *nodes)
{
    return nodes->node->rank == 0;
}

bool nodes_is_here(const struct nodes *nodes, int rank)
{
    return nodes->first_of[rank] == nodes->first_of[nodes->all->rank];
}
