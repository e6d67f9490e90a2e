/* Included in every translation unit by the build (-include): functions that are easy to misuse do not exist here. */
#ifndef KERNELS_BASE_BANNED_H
#define KERNELS_BASE_BANNED_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#pragma GCC poison strcpy strcat sprintf vsprintf strtok atoi atol atof gets rand srand localtime

#endif
