/* The version that /version tells and that system_fingerprint depends on. */
#ifndef SERVER_VERSION_H
#define SERVER_VERSION_H

#define INCIPIT_VERSION "0.1.0"

#endif
