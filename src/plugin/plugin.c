/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/plugin.h"

#include <dirent.h>
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/base.h"
#include "plugin/check.h"
#include "plugin/trust.h"

#ifndef TUTTI_PLUGIN_DIR
#define TUTTI_PLUGIN_DIR "/usr/local/lib/tutti"
#endif

#define PREFIX TT_PLUGIN_FILE_PREFIX
#define SUFFIX TT_PLUGIN_FILE_SUFFIX

enum { FOLDERS_MAX = 16 };

/* The package to install if the library below a plugin is missing. */
static const struct {
    const char *name, *library, *build;
} known[] = {
    {"mpi-openmpi", "Open MPI (Debian: libopenmpi3, openmpi-bin)", "mpi"},
    {"mpi-mpich", "MPICH (Debian: libmpich12, mpich)", "mpi"},
    {"ucx", "UCX (Debian: libucx0)", "ucx"},
    {"pmix", "PMIx (Debian: libpmix2)", "pmix"},
};

/* ---- folders ---- */

bool tt_plugin_home(const tt_plugin_source *source, char path_out[TT_PLUGIN_PATH_BYTES])
{
    const char *data = source->lookup(source->user, "XDG_DATA_HOME");
    const char *home = source->lookup(source->user, "HOME");
    int length = -1;
    if (data != NULL && data[0] == '/') {
        length = snprintf(path_out, TT_PLUGIN_PATH_BYTES, "%s/tutti/plugins", data);
    } else if (home != NULL && home[0] == '/') {
        length = snprintf(path_out, TT_PLUGIN_PATH_BYTES, "%s/.local/share/tutti/plugins", home);
    }
    return length > 0 && length < TT_PLUGIN_PATH_BYTES;
}

enum { OWN_PATH_BYTES = TT_PLUGIN_PATH_BYTES - 64 }; /* leaves room for a subfolder */

/* The file that holds this code: the library, or a program linked with it. */
static bool own_file(char path_out[OWN_PATH_BYTES])
{
    Dl_info info;
    if (dladdr(PREFIX, &info) == 0 || info.dli_fname == NULL) {
        return false;
    }
    ssize_t length = readlink("/proc/self/exe", path_out, OWN_PATH_BYTES - 1);
    if (info.dli_fname[0] == '/' && strlen(info.dli_fname) < OWN_PATH_BYTES) {
        length = snprintf(path_out, OWN_PATH_BYTES, "%s", info.dli_fname);
    }
    if (length > 0) {
        path_out[length] = '\0';
    }
    return length > 0;
}

static bool own_folder(const char *below, char path_out[TT_PLUGIN_PATH_BYTES])
{
    char path[OWN_PATH_BYTES];
    char *end = own_file(path) ? strrchr(path, '/') : NULL;
    if (end == NULL) {
        return false;
    }
    *end = '\0';
    const int length = snprintf(path_out, TT_PLUGIN_PATH_BYTES, "%s/%s", path, below);
    return length > 0 && length < TT_PLUGIN_PATH_BYTES;
}

bool tt_plugin_folder(const tt_plugin_source *source, size_t index,
                      char path_out[TT_PLUGIN_PATH_BYTES])
{
    const char *list = source->lookup(source->user, "TUTTI_PLUGIN_PATH");
    for (const char *at = list; at != NULL && at[0] != '\0';) {
        const size_t length = strcspn(at, ":");
        if (length > 0 && length < TT_PLUGIN_PATH_BYTES && index-- == 0) {
            memcpy(path_out, at, length);
            path_out[length] = '\0';
            return true;
        }
        at += length + (at[length] == ':' ? 1 : 0);
    }
    path_out[0] = '\0';
    switch (index) {
    case 0:
        return tt_plugin_home(source, path_out) || true;
    case 1:
        return own_folder("../plugins", path_out) || true;
    case 2:
        return own_folder("plugins", path_out) || true;
    case 3:
        return own_folder("../lib/tutti", path_out) || true;
    case 4:
        return own_folder("tutti", path_out) || true;
    case 5:
        (void)snprintf(path_out, TT_PLUGIN_PATH_BYTES, "%s", TUTTI_PLUGIN_DIR);
        return true;
    default:
        return false;
    }
}

/* ---- loading ---- */

static const char *library_of(const char *name)
{
    for (size_t i = 0; i < TT_ARRAY_COUNT(known); i++) {
        if (strcmp(known[i].name, name) == 0) {
            return known[i].library;
        }
    }
    return NULL;
}

static tt_plugin_owners owners_here(void)
{
    char path[OWN_PATH_BYTES];
    return tt_plugin_owners_here(own_file(path) ? path : NULL);
}

/* The plugin in the file `real`, found as `path`; or NULL with the reason in `why`. */
static const tutti_plugin *open_file(const char *path, const char *real, tt_plugin_part part,
                                     tt_text *why)
{
    void *handle = dlopen(real, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (handle == NULL) {
        char name[TT_PLUGIN_NAME_BYTES] = "";
        const char *file = strrchr(path, '/') + sizeof(PREFIX);
        (void)snprintf(name, sizeof(name), "%.*s", (int)(strlen(file) - strlen(SUFFIX)), file);
        const char *error = dlerror();
        tt_text_add(why, "%s", error != NULL ? error : path);
        if (library_of(name) != NULL) {
            tt_text_add(why, "; install %s, or rebuild the plugin with the site's own",
                        library_of(name));
        }
        return NULL;
    }
    const tutti_plugin *found = dlsym(handle, TUTTI_PLUGIN_SYMBOL);
    if (found == NULL) {
        tt_text_add(why, "%s is not a Tutti plugin: it has no symbol " TUTTI_PLUGIN_SYMBOL, path);
    } else if (tt_plugin_check(path, found, part, why)) {
        return found; /* stays loaded */
    }
    (void)dlclose(handle);
    return NULL;
}

static void say_missing(const tt_plugin_source *source, const char *name, tt_text *why)
{
    char folder[TT_PLUGIN_PATH_BYTES];
    const char *cure = "set TUTTI_PLUGIN_PATH to its folder, or see: tutti info --engines";
    tt_text_add(why, "there is no plugin " PREFIX "%s" SUFFIX "; ", name);
    for (size_t i = 0; i < TT_ARRAY_COUNT(known); i++) {
        if (strcmp(known[i].name, name) == 0) {
            tt_text_add(why, "install %s and run: tutti plugin build %s", known[i].library,
                        known[i].build);
            cure = "";
        }
    }
    tt_text_add(why, "%s (searched:", cure);
    for (size_t i = 0; i < FOLDERS_MAX && tt_plugin_folder(source, i, folder); i++) {
        if (folder[0] != '\0') {
            tt_text_add(why, " %s", folder);
        }
    }
    tt_text_add(why, ")");
}

static bool is_name(const char *name)
{
    const size_t length = strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-_");
    return length > 0 && length < TT_PLUGIN_NAME_BYTES && name[length] == '\0';
}

static const tutti_plugin *load_one(const tt_plugin_source *source, const char *name,
                                    tt_plugin_part part, tt_text *why)
{
    char folder[TT_PLUGIN_PATH_BYTES];
    char path[TT_PLUGIN_PATH_BYTES + TT_PLUGIN_NAME_BYTES + sizeof(PREFIX SUFFIX)];
    char real[PATH_MAX];
    tt_text passed_over = {0};
    const tt_plugin_owners owners = owners_here();
    if (!is_name(name)) {
        tt_text_add(why, "'%.80s' is not a plugin name; use lower-case letters, digits, - and _",
                    name);
        return NULL;
    }
    for (size_t i = 0; i < FOLDERS_MAX && tt_plugin_folder(source, i, folder); i++) {
        (void)snprintf(path, sizeof(path), "%s/" PREFIX "%s" SUFFIX, folder, name);
        if (folder[0] == '\0' || access(path, F_OK) != 0) {
            continue;
        }
        if (tt_plugin_is_trusted(path, &owners, real, &passed_over)) {
            return open_file(path, real, part, why);
        }
        tt_text_add(&passed_over, "; ");
    }
    if (passed_over.length > 0) {
        tt_text_add(why, PREFIX "%s" SUFFIX " was passed over: %s", name, passed_over.bytes);
        tt_text_add(why, "or set TUTTI_PLUGIN_PATH to a folder that only you can write");
    } else {
        say_missing(source, name, why);
    }
    return NULL;
}

/* ---- which MPI ---- */

/* The version text of an MPI that is already in this process, or "". */
static void loaded_mpi(char *text, size_t text_bytes)
{
    typedef int version_fn(char *, int *);
    enum { VERSION_BYTES_MAX = 8192 }; /* of both, and more */
    version_fn *version = NULL;
    void *symbol = dlsym(RTLD_DEFAULT, "MPI_Get_library_version");
    text[0] = '\0';
    if (symbol != NULL) {
        char full[VERSION_BYTES_MAX] = "";
        int length = 0;
        memcpy(&version, &symbol, sizeof(version));
        (void)version(full, &length);
        (void)snprintf(text, text_bytes, "%s", full);
    }
}

bool tt_plugin_has_mpi(void)
{
    char loaded[64];
    loaded_mpi(loaded, sizeof(loaded));
    return loaded[0] != '\0';
}

const char *const *tt_plugin_mpi_names(const tt_plugin_source *source)
{
    static const char *const open_first[] = {"mpi-openmpi", "mpi-mpich", NULL};
    static const char *const mpich_first[] = {"mpi-mpich", "mpi-openmpi", NULL};
    char loaded[64];
    loaded_mpi(loaded, sizeof(loaded));
    if (loaded[0] != '\0') { /* two of them in one process do not work: no second choice */
        return strstr(loaded, "Open MPI") != NULL ? open_first : mpich_first;
    }
    const bool is_open = source->lookup(source->user, "OMPI_COMM_WORLD_SIZE") != NULL;
    const bool is_pmi = source->lookup(source->user, "PMI_RANK") != NULL ||
                        source->lookup(source->user, "PMI_FD") != NULL;
    return is_pmi && !is_open ? mpich_first : open_first;
}

const tutti_plugin *tt_plugin_load(const tt_plugin_source *source, const char *name,
                                   tt_plugin_part part, tt_text *why)
{
    if (strcmp(name, "mpi") != 0) {
        return load_one(source, name, part, why);
    }
    const bool is_told = source->lookup(source->user, "OMPI_COMM_WORLD_SIZE") != NULL ||
                         source->lookup(source->user, "PMI_RANK") != NULL || tt_plugin_has_mpi();
    const char *const *names = tt_plugin_mpi_names(source);
    const tutti_plugin *found = load_one(source, names[0], part, why);
    if (found != NULL || is_told) {
        return found; /* the other MPI supports neither this launcher nor the program's own MPI */
    }
    tt_text other = {0};
    found = load_one(source, names[1], part, &other);
    if (found != NULL) {
        *why = (tt_text){0};
    }
    return found;
}

/* ---- all of them ---- */

static bool is_plugin_file(const char *file)
{
    const size_t length = strlen(file);
    return length > strlen(PREFIX SUFFIX) && strncmp(file, PREFIX, strlen(PREFIX)) == 0 &&
           strcmp(file + length - strlen(SUFFIX), SUFFIX) == 0;
}

/* One file of a folder. */
static void look_at(const char *path, bool is_loaded, tt_plugin_visit *visit, void *user)
{
    char real[PATH_MAX];
    tt_text why = {0};
    tt_text fault = {0};
    const tt_plugin_owners owners = owners_here();
    const tutti_plugin *found = NULL;
    if (!tt_plugin_is_trusted(path, &owners, real, &fault)) {
        tt_text_add(&why, "passed over: %s", fault.bytes);
    } else if (is_loaded) {
        found = open_file(path, real, TT_PLUGIN_ANY, &why);
    } else {
        return;
    }
    visit(user, path, found, why.bytes);
}

static void visit_files(const tt_plugin_source *source, bool is_loaded, tt_plugin_visit *visit,
                        void *user)
{
    char folder[TT_PLUGIN_PATH_BYTES];
    for (size_t i = 0; i < FOLDERS_MAX && tt_plugin_folder(source, i, folder); i++) {
        DIR *listing = folder[0] != '\0' ? opendir(folder) : NULL;
        if (listing == NULL) {
            continue;
        }
        for (struct dirent *entry = readdir(listing); entry != NULL; entry = readdir(listing)) {
            char path[TT_PLUGIN_PATH_BYTES + sizeof(entry->d_name) + 1];
            if (is_plugin_file(entry->d_name)) {
                (void)snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
                look_at(path, is_loaded, visit, user);
            }
        }
        (void)closedir(listing);
    }
}

void tt_plugin_each(const tt_plugin_source *source, tt_plugin_visit *visit, void *user)
{
    visit_files(source, true, visit, user);
}

void tt_plugin_passed_over(const tt_plugin_source *source, tt_plugin_visit *visit, void *user)
{
    visit_files(source, false, visit, user);
}
