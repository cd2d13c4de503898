/* SPDX-License-Identifier: Apache-2.0
 *
 * replay.c - main for a fuzz target where libFuzzer is not linked: runs it over every file of the
 * folders that are named on the command line. No file at all is a failure, not a pass.
 */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t data_bytes);

enum { INPUT_BYTES_MAX = 1 << 20 };

static int replay_file(const char *path, uint8_t *buffer)
{
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        perror(path);
        return -1;
    }
    const size_t input_bytes = fread(buffer, 1, INPUT_BYTES_MAX, file);
    fclose(file);
    /* A copy of the exact size, so that AddressSanitizer detects a read beyond the end. */
    uint8_t *exact = malloc(input_bytes > 0 ? input_bytes : 1);
    if (exact == NULL) {
        return -1;
    }
    for (size_t i = 0; i < input_bytes; i++) {
        exact[i] = buffer[i];
    }
    (void)LLVMFuzzerTestOneInput(exact, input_bytes);
    free(exact);
    return 0;
}

static int replay_folder(const char *folder, uint8_t *buffer)
{
    DIR *dir = opendir(folder);
    if (dir == NULL) {
        perror(folder);
        return -1;
    }
    int count = 0;
    for (const struct dirent *entry = readdir(dir); entry != NULL; entry = readdir(dir)) {
        char path[4096];
        const int length = snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
        if (entry->d_name[0] == '.' || length < 0 || (size_t)length >= sizeof(path)) {
            continue;
        }
        if (replay_file(path, buffer) != 0) {
            count = -1;
            break;
        }
        count++;
    }
    closedir(dir);
    return count;
}

int main(int argc, char **argv)
{
    uint8_t *buffer = malloc(INPUT_BYTES_MAX);
    int total = buffer == NULL ? -1 : 0;
    for (int i = 1; i < argc && total >= 0; i++) {
        const int count = replay_folder(argv[i], buffer);
        total = count < 0 ? -1 : total + count;
    }
    free(buffer);
    printf("%d inputs replayed\n", total);
    return total > 0 ? 0 : 1;
}
