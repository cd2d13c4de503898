/* SPDX-License-Identifier: Apache-2.0
 *
 * consumer.c - a user's program: one rank, through the installed header only. */
#include <stdio.h>
#include <string.h>

#include <tutti/tutti.h>

int main(void)
{
    char header_version[32];
    snprintf(header_version, sizeof(header_version), "%d.%d.%d", TUTTI_VERSION_MAJOR,
             TUTTI_VERSION_MINOR, TUTTI_VERSION_PATCH);
    printf("header %s, library %s\n", header_version, tutti_version());
    return strcmp(header_version, tutti_version()) == 0 ? 0 : 1;
}
