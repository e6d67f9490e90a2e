/* The version that /version, system_fingerprint and the log name. */
#ifndef SERVER_VERSION_H
#define SERVER_VERSION_H

#define INCIPIT_VERSION "0.1.0"

#endif
