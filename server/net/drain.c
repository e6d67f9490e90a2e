/* Ending well: from net_drain on nothing new is begun, and what was begun goes on. */
#include "server/net/net_private.h"

bool drain_admit(struct exchange *exchange)
{
    struct net *net = exchange->net;
    pthread_mutex_lock(&net->lock);
    bool admitted = !net->draining;
    net->serving += admitted;
    exchange->serving = admitted;
    pthread_mutex_unlock(&net->lock);
    return admitted;
}

bool net_is_draining(struct net *net)
{
    pthread_mutex_lock(&net->lock);
    bool draining = net->draining;
    pthread_mutex_unlock(&net->lock);
    return draining;
}

void net_drain(struct net *net)
{
    pthread_mutex_lock(&net->lock);
    net->draining = true;
    for (uint32_t i = 0; i < net->connection_count; i++) {
        struct connection *connection = &net->connections[i];
        if (connection->mhd != NULL && connection->exchange == NULL)
            connection_shut(net, connection);
    }
    pthread_mutex_unlock(&net->lock);
}

uint32_t net_serving(struct net *net)
{
    pthread_mutex_lock(&net->lock);
    uint32_t serving = net->serving;
    pthread_mutex_unlock(&net->lock);
    return serving;
}
