/* SPDX-License-Identifier: Apache-2.0
 *
 * command_plugin.c - `tutti plugin build`: compile a packaged plugin with the site's own compiler
 * wrapper, for users of a binary package. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/base.h"
#include "cli/commands.h"
#include "cli/library.h"
#include "cli/self.h"

enum { EXIT_USAGE = 2, FOUND_MAX = 12, WORDS_MAX = 12 + FOUND_MAX + 1, PATH_BYTES = 1024 };

typedef struct plugin_values {
    const char *compiler;
    const char *output;
    bool is_dry;
} plugin_values;

#define AT(member) offsetof(plugin_values, member)

static const tt_option options[] = {
    {'\0', "compiler", TT_OPTION_STRING, AT(compiler), "COMMAND",
     "compiler wrapper of the library; default: mpicc, else cc with pkg-config's flags", NULL, NULL,
     "--mpicc --cc", 0, 0},
    {'o', "output", TT_OPTION_STRING, AT(output), "FOLDER",
     "where to put it; default: the user's own plugin folder", NULL, NULL, NULL, 0, 0},
    {'\0', "dry-run", TT_OPTION_FLAG, AT(is_dry), NULL, "print the command, do not run it", NULL,
     NULL, NULL, 0, 0},
};

/* Plugins that can be built: source below the plugins' folder, and libraries to link with. */
static const struct {
    const char *name, *source, *more, *compiler, *link, *package, *variable;
} recipes[] = {
    {"mpi", "mpi/mpi_engine.c", "mpi/mpi_links.c", "mpicc", NULL, "libopenmpi-dev or libmpich-dev",
     "TUTTI_ENGINE"},
    {"ucx", "ucx/ucx_transport.c", NULL, "cc", "-lucp", "libucx-dev", "TUTTI_TRANSPORT"},
    {"pmix", "pmix/pmix_engine.c", NULL, "pmixcc", "-lpmix", "libpmix-dev", "TUTTI_RENDEZVOUS"},
};

/* The -I, -L and -l of pkg-config for a library; a run path, which it may print too, is dropped.
 * Returns how many words were cut from `text`; 0: the library is not known. */
static size_t ask_pkg_config(const char *name, char *text, size_t text_bytes, char **words_out)
{
    char command[PATH_BYTES];
    (void)snprintf(command, sizeof(command), "pkg-config --cflags --libs %s 2>/dev/null", name);
    FILE *answer = popen(command, "re");
    const bool is_read = answer != NULL && fgets(text, (int)text_bytes, answer) != NULL;
    if (answer != NULL && (pclose(answer) != 0 || !is_read)) {
        return 0;
    }
    size_t count = 0;
    char *rest = NULL;
    for (char *word = strtok_r(text, " \n", &rest); word != NULL && count < FOUND_MAX;
         word = strtok_r(NULL, " \n", &rest)) {
        if (word[0] == '-' && word[1] != '\0' && strchr("ILl", word[1]) != NULL) {
            words_out[count++] = word;
        }
    }
    return count;
}

/* `below` of the first place that has it: an installation, or a build tree. */
static bool find_file(const char *const *places, const char *below, char path_out[PATH_BYTES])
{
    char own[PATH_BYTES / 2];
    (void)tt_self_path(own, sizeof(own));
    char *end = strrchr(own, '/');
    if (end == NULL) {
        return false;
    }
    *end = '\0';
    for (size_t i = 0; places[i] != NULL; i++) {
        (void)snprintf(path_out, PATH_BYTES, "%s/%s/%s", own, places[i], below);
        if (access(path_out, R_OK) == 0) {
            return true;
        }
    }
    return false;
}

static int run_words(char *const *words)
{
    const pid_t child = fork();
    if (child == 0) {
        (void)execvp(words[0], words);
        fprintf(stderr, "tutti plugin: cannot run %s: %s\n", words[0], strerror(errno));
        _exit(127);
    }
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status)) {
        return 1;
    }
    return WEXITSTATUS(status);
}

/* The MPI that a wrapper belongs to, from its header. NULL: the wrapper does not work. */
static const char *mpi_name(const char *compiler)
{
    char command[PATH_BYTES];
    char line[512];
    const char *name = NULL;
    (void)snprintf(command, sizeof(command),
                   "'%s' -E -dM -include mpi.h -x c /dev/null 2>/dev/null", compiler);
    FILE *macros = popen(command, "re");
    while (macros != NULL && fgets(line, sizeof(line), macros) != NULL) {
        if (strncmp(line, "#define OPEN_MPI ", 17) == 0) {
            name = "mpi-openmpi";
        } else if (strncmp(line, "#define MPI_VERSION ", 20) == 0 && name == NULL) {
            name = "mpi-mpich";
        }
    }
    if (macros != NULL) {
        (void)pclose(macros);
    }
    return name;
}

static bool make_folders(char *path)
{
    for (char *at = path + 1;; at++) {
        if (*at == '/' || *at == '\0') {
            const char kept = *at;
            *at = '\0';
            if (mkdir(path, 0755) != 0 && errno != EEXIST) {
                fprintf(stderr, "tutti plugin: cannot make %s: %s\n", path, strerror(errno));
                return false;
            }
            *at = kept;
            if (kept == '\0') {
                return true;
            }
        }
    }
}

static void print_words(char *const *words)
{
    for (size_t i = 0; words[i] != NULL; i++) {
        printf("%s%s", i > 0 ? " " : "", words[i]);
    }
    printf("\n");
    (void)fflush(stdout);
}

static int build(const plugin_values *values, size_t recipe)
{
    static const char *const sources[] = {"../share/tutti/plugins", "../../plugins", NULL};
    static const char *const headers[] = {"../include", "../../include", NULL};
    char source[PATH_BYTES], more[PATH_BYTES] = "", header[PATH_BYTES], folder[PATH_BYTES];
    char include[PATH_BYTES + 2], target[2 * PATH_BYTES], text[PATH_BYTES];
    char *found[FOUND_MAX];
    const char *compiler = values->compiler != NULL ? values->compiler : recipes[recipe].compiler;
    const char *name = recipes[recipe].name;
    size_t found_count = 0;
    if (values->compiler == NULL && recipes[recipe].link != NULL) {
        found_count = ask_pkg_config(name, text, sizeof(text), found);
        compiler = found_count > 0 ? "cc" : compiler;
    }
    if (!find_file(sources, recipes[recipe].source, source) ||
        (recipes[recipe].more != NULL && !find_file(sources, recipes[recipe].more, more)) ||
        !find_file(headers, "tutti/plugin.h", header)) {
        fprintf(stderr,
                "tutti plugin: the source of %s is not installed beside this program; reinstall "
                "Tutti\n",
                name);
        return 1;
    }
    if (strcmp(name, "mpi") == 0) {
        name = mpi_name(compiler);
    }
    if (name == NULL) {
        fprintf(stderr,
                "tutti plugin: '%s' does not find mpi.h; install %s, or name the site's wrapper "
                "with --compiler\n",
                compiler, recipes[recipe].package);
        return 1;
    }
    if (values->output != NULL) {
        (void)snprintf(folder, sizeof(folder), "%s", values->output);
    } else if (!tt_library_plugin_home(folder, sizeof(folder))) {
        fputs("tutti plugin: HOME is not set; choose a folder with --output\n", stderr);
        return 1;
    }
    *strstr(header, "/tutti/plugin.h") = '\0';
    (void)snprintf(include, sizeof(include), "-I%s", header);
    (void)snprintf(target, sizeof(target), "%s/tutti-%s.so", folder, name);
    char *words[WORDS_MAX] = {(char *)(uintptr_t)compiler,
                              "-std=c11",
                              "-D_GNU_SOURCE",
                              "-O2",
                              "-fPIC",
                              "-shared",
                              "-fvisibility=hidden",
                              include,
                              source,
                              "-o",
                              target,
                              (char *)(uintptr_t)recipes[recipe].link};
    if (recipes[recipe].more != NULL) { /* nothing else is linked with it */
        words[11] = more;
    }
    for (size_t i = 0; i < found_count; i++) {
        words[12 + i] = found[i];
    }
    print_words(words);
    if (values->is_dry) {
        return 0;
    }
    if (!make_folders(folder) || run_words(words) != 0) {
        fprintf(stderr, "tutti plugin: could not build %s; install %s\n", name,
                recipes[recipe].package);
        return 1;
    }
    printf("built %s; use it with %s=%s\n", target, recipes[recipe].variable, name);
    return 0;
}

static int run(const void *raw_values, int operand_count, char **operands)
{
    if (operand_count == 2 && strcmp(operands[0], "build") == 0) {
        for (size_t i = 0; i < TT_ARRAY_COUNT(recipes); i++) {
            if (strcmp(recipes[i].name, operands[1]) == 0) {
                return build(raw_values, i);
            }
        }
    }
    fputs("tutti plugin: nothing to build; use: tutti plugin build mpi|ucx|pmix\n", stderr);
    return EXIT_USAGE;
}

static const tt_command_note environment[] = {
    {"XDG_DATA_HOME, HOME", "Where the user's own plugins are."},
    {NULL, NULL},
};

static const tt_command_note examples[] = {
    {"tutti plugin build mpi", "For the MPI that mpicc belongs to:"},
    {"tutti plugin build mpi --compiler mpicc.mpich", "For another one:"},
    {NULL, NULL},
};

const tt_command tt_command_plugin = {
    .name = "plugin",
    .summary = "Build a plugin for a library of this site.",
    .operands = "build mpi|ucx|pmix",
    .operand_max = 2,
    .description =
        "Compiles the plugin's packaged source with the compiler wrapper of the site's library, "
        "and puts it where programs that use Tutti find it. 'tutti info --engines' shows it.",
    .options = options,
    .option_count = TT_ARRAY_COUNT(options),
    .values_bytes = sizeof(plugin_values),
    .environment = environment,
    .examples = examples,
    .run = run,
};
