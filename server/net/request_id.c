/* Ids of requests: 24 letters and digits, from a seed drawn once and a counter. Unique, not secret. */
#include <string.h>

#include "server/net/net_private.h"

static uint64_t mix(uint64_t z)
{
    z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ z >> 27) * UINT64_C(0x94D049BB133111EB);
    return z ^ z >> 31;
}

void request_id_make(struct net *net, char id[REQUEST_ID_SIZE])
{
    static const char digits[] = "0123456789abcdefghijklmnopqrstuvwxyz";
    uint64_t number = 0;
    for (int i = 0; i < REQUEST_ID_SIZE - 1; i++) {
        if (i % 12 == 0) /* 36^12 is a little less than 2^63 */
            number = mix(net->request_id_seed + ++net->requests * UINT64_C(0x9E3779B97F4A7C15));
        id[i] = digits[number % 36];
        number /= 36;
    }
    id[REQUEST_ID_SIZE - 1] = '\0';
}

void request_id_note_client(struct exchange *exchange)
{
    const char *given = judge_header(exchange, "X-Request-Id");
    if (given == NULL || strlen(given) >= CLIENT_ID_SIZE)
        return;
    for (const char *at = given; *at != '\0'; at++)
        if (*at <= ' ' || *at >= 0x7f)
            return;
    memcpy(exchange->client_id, given, strlen(given));
}
