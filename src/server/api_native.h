// llama-server's own API.
#ifndef SERVER_API_NATIVE_H
#define SERVER_API_NATIVE_H

#include "server/api.h"

extern const struct api api_native, api_infill;

#endif
