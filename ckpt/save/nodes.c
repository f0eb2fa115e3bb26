#include "ckpt/save/nodes.h"

#include "base/os/machine.h"
#include "ckpt/collective.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct node_name {
    char text[CKPT_NODE_BYTES_MAX];
};

static int get_node_name(const struct ckpt_saver_options *options, struct node_name *ret_name,
                         struct err *err)
{
    char host[MACHINE_HOST_ID_BYTES];
    const char *name = options->node ? options->node : machine_host_id(host);
    if (strlen(name) >= sizeof ret_name->text)
        return err_set(err, -ENAMETOOLONG, "the name of a node is too long: %.100s...", name);
    strcpy(ret_name->text, name);
    return 0;
}

static void find_first_ranks(struct nodes *nodes, const struct node_name *names)
{
    nodes->count = 0;
    for (int r = 0; r < nodes->all->ranks; r++) {
        int first = 0;
        while (strcmp(names[first].text, names[r].text) != 0)
            first++;
        nodes->first_rank[r] = first;
        nodes->count += first == r;
    }
}

static int group_ranks(struct nodes *nodes, const struct ckpt_saver_options *options,
                       struct err *err)
{
    static const char operation[] = "identifying the nodes";
    struct comm *all = nodes->all;
    struct node_name *names = calloc((size_t)all->ranks, sizeof *names);
    int status = names
                     ? get_node_name(options, &names[all->rank], err)
                     : err_set(err, -ENOMEM, "out of memory for the names of %d nodes", all->ranks);
    status = collective_agree(all, status, operation, err);
    if (status) {
        free(names);
        return status;
    }
    status = collective_gather(all, names, sizeof *names, operation, err);
    if (status) {
        comm_retain(names);
        return status;
    }
    for (int r = 0; r < all->ranks && !status; r++)
        if (!memchr(names[r].text, '\0', sizeof names[r].text))
            status = err_set(err, -EPROTO, "the node name from rank %d is not terminated", r);
    if (!status)
        find_first_ranks(nodes, names);
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
    nodes->first_rank = calloc((size_t)nodes->all->ranks, sizeof *nodes->first_rank);
    if (!nodes->first_rank)
        status = err_set(err, -ENOMEM, "out of memory for %d ranks", nodes->all->ranks);
    status = collective_agree(nodes->all, status, "opening the checkpoint folder", err);
    if (!status && options->per_node)
        status = group_ranks(nodes, options, err);
    if (!status && nodes->count > 1)
        status = nodes->all->ops->split(nodes->all, nodes->first_rank[nodes->all->rank],
                                        nodes->all->rank, &nodes->node, err);
    return status;
}

void nodes_deinit(struct nodes *nodes)
{
    if (nodes->node != nodes->all)
        comm_close(nodes->node);
    comm_close(nodes->all);
    free(nodes->first_rank);
    *nodes = (struct nodes){0};
}

bool nodes_is_first_rank(const struct nodes *nodes)
{
    return nodes->node->rank == 0;
}

bool nodes_rank_shares_folder(const struct nodes *nodes, int rank)
{
    return nodes->first_rank[rank] == nodes->first_rank[nodes->all->rank];
}
