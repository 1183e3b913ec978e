/*
 * guest/launch.c - what a run executes: program, arguments, environment, file.
 * Runs in: guest-init (PID 1 of a sandbox).
 * Input: the decoded specification of a run; its strings are the caller's.
 * Owns: the memory shared with the runner, while no process is being started.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "guest.h"

#define BOX_DIR "/.bailey" /* the mount this program lies in */

static const struct {
	uint32_t kind;
	const char *program, *file;
} launch_kinds[] = {
	{RUN_PYTHON, "python3", "main.py"},
	{RUN_NODE, "node", "main.js"},
	{RUN_BASH, "bash", "main.sh"},
	{RUN_COMMAND, "bash", NULL}, /* its code is an argument */
	{RUN_ARGV, NULL, NULL},      /* its first argument is the program */
	{RUN_EVAL_PYTHON, "python3", NULL},
	{RUN_EVAL_NODE, "node", NULL},
	{RUN_EVAL_BASH, "bash", NULL},
};

/* What an interpreter that stays begins with; its code comes later (eval.c). */
static const struct {
	uint32_t kind;
	const char *words[2];
} launch_drivers[] = {
	{RUN_EVAL_PYTHON, {BOX_DIR "/python/eval.py", NULL}},
	{RUN_EVAL_NODE, {BOX_DIR "/node/eval.js", NULL}},
	{RUN_EVAL_BASH,
	 {"-c", ". " BOX_DIR "/bash/eval.sh; while { _bailey_done 0; } 2>/dev/null; "
		"_bailey_answer; { _bailey_next; } 2>/dev/null; do "
		"for _bailey_one in 1; do builtin eval -- \"$_bailey_code\" 199>&-; done; "
		"{ _bailey_done $?; } 2>/dev/null; done"}},
};

static const char launch_usual_path[] = "/usr/local/bin:/usr/bin:/bin";
static const char *const launch_dirs[] = {"/usr/local/bin", "/usr/bin", "/bin"};

/* What each run has before its own variables. */
static const char *const launch_base_env[] = {
	"PATH=/usr/local/bin:/usr/bin:/bin",
	("HOME=" GUEST_WORKSPACE),
	"USER=bailey",
	"LANG=C.UTF-8",
	/* caches of tools are none of the files a caller lists */
	("XDG_CACHE_HOME=" GUEST_TMP "/.cache"),
	("MPLCONFIGDIR=" GUEST_TMP "/.matplotlib"),
};
/* How many processors there are, for those who do not ask the system; never less than least.
 * libuv's threads wait for files rather than compute: its own default is the floor. */
static const struct {
	const char *name;
	uint32_t least;
} launch_cpu_env[] = {
	{"PYTHON_CPU_COUNT", 1},
	{"OMP_NUM_THREADS", 1},
	{"UV_THREADPOOL_SIZE", 4},
};

/* Read by the dynamic loader, libc or an interpreter before any code of a run. A name ending
 * in '=' is that variable, anything else a prefix. */
static const char *const launch_startup[] = {
	"PYTHON", "NODE_", "UV_",     "OPENSSL_", "SSL_CERT_", "LD_",   "LC_",
	"LANG",   "TZ",    "MALLOC_", "GLIBC_",   "HOME=",     "PATH=",
};

bool
launch_is_startup_env(const char *item, size_t len)
{
	for (size_t i = 0; i < ARRAY_LEN(launch_startup); i++) {
		size_t n = strlen(launch_startup[i]);

		if (len >= n && memcmp(item, launch_startup[i], n) == 0)
			return true;
	}
	return false;
}

static const char *
launch_program(uint32_t kind)
{
	for (size_t i = 0; i < ARRAY_LEN(launch_kinds); i++) {
		if (launch_kinds[i].kind == kind)
			return launch_kinds[i].program;
	}
	return NULL;
}

static const char *
launch_file(uint32_t kind)
{
	for (size_t i = 0; i < ARRAY_LEN(launch_kinds); i++) {
		if (launch_kinds[i].kind == kind)
			return launch_kinds[i].file;
	}
	return NULL;
}

/* A directory has the same permission bit and a program's name at times: a shell passes it by. */
static bool
launch_is_program(const char *path)
{
	struct stat st;

	if (access(path, X_OK) == -1)
		return false;
	if (stat(path, &st) == 0 && S_ISREG(st.st_mode))
		return true;
	errno = EACCES;
	return false;
}

static int
launch_find(struct launch *l, const char *program)
{
	if (l->program != NULL && strcmp(l->program, program) == 0)
		return 0; /* the waiting sandbox looked already; its root is read-only */
	for (size_t i = 0; i < ARRAY_LEN(launch_dirs); i++) {
		int n = snprintf(l->path, sizeof(l->path), "%s/%s", launch_dirs[i], program);

		if (n > 0 && (size_t)n < sizeof(l->path) && launch_is_program(l->path)) {
			l->program = program;
			return 0;
		}
	}
	l->program = NULL;
	return ENOENT;
}

/* The directories this environment names, where it names some. */
static void
launch_search_path(const struct guest_spec *spec, const char **ret, size_t *ret_len)
{
	static const char name[] = "PATH=";

	for (uint32_t i = 0; i < spec->n_env; i++) {
		const struct ipc_str *e = &spec->env[i];

		if (e->len >= sizeof(name) - 1 && memcmp(e->data, name, sizeof(name) - 1) == 0) {
			*ret = e->data + sizeof(name) - 1;
			*ret_len = e->len - (sizeof(name) - 1);
		}
	}
}

/* A name is looked for as a shell would; with a slash it is the path, below the run's directory.
 * Names of a directory that is not absolute find nothing: it is not this process' directory that
 * is meant. */
static int
launch_find_named(struct launch *l, const struct guest_spec *spec, const struct guest_spec *kept)
{
	const struct ipc_str *name = &spec->args[0];
	const char *at = launch_usual_path;
	size_t left = sizeof(launch_usual_path) - 1;
	int err = ENOENT;

	l->program = NULL;
	if (memchr(name->data, '/', name->len) != NULL)
		return str_copy(l->path, sizeof(l->path), name->data, name->len) < 0 ? ENAMETOOLONG
										     : 0;
	launch_search_path(kept, &at, &left);
	launch_search_path(spec, &at, &left);
	while (name->len > 0 && left > 0) {
		const char *colon = memchr(at, ':', left);
		size_t n = colon == NULL ? left : (size_t)(colon - at);

		if (n > 0 && at[0] == '/' && n + 1 + name->len < sizeof(l->path)) {
			memcpy(l->path, at, n);
			l->path[n] = '/';
			memcpy(l->path + n + 1, name->data, name->len);
			l->path[n + 1 + name->len] = '\0';
			if (launch_is_program(l->path))
				return 0;
			if (errno == EACCES)
				err = EACCES;
		}
		left -= colon == NULL ? n : n + 1;
		at += colon == NULL ? n : n + 1;
	}
	return err;
}

static int
launch_put(struct launch *l, const void *p, size_t n, uint32_t *count)
{
	if (n >= sizeof(l->text) - l->len)
		return E2BIG;
	memcpy(l->text + l->len, p, n);
	l->text[l->len + n] = '\0';
	l->len += n + 1;
	(*count)++;
	return 0;
}

static int
launch_arg(struct launch *l, const char *text)
{
	return launch_put(l, text, strlen(text), &l->n_argv);
}

static size_t
launch_name_len(const char *item, size_t len)
{
	const char *eq = memchr(item, '=', len);

	return eq == NULL ? len : (size_t)(eq - item);
}

/* The variable is set again by a later item of the run's own environment. */
static bool
launch_is_set_later(const struct guest_spec *spec, uint32_t from, const char *item, size_t len)
{
	size_t n = launch_name_len(item, len);

	for (uint32_t i = from; i < spec->n_env; i++) {
		const struct ipc_str *e = &spec->env[i];

		if (launch_name_len(e->data, e->len) == n && memcmp(e->data, item, n) == 0)
			return true;
	}
	return false;
}

/* What the run's own environment does not set, nor what is kept for all of them. */
static int
launch_var(struct launch *l, const struct guest_spec *spec, const struct guest_spec *kept,
	   const char *item)
{
	size_t n = strlen(item);

	if (launch_is_set_later(kept, 0, item, n) || launch_is_set_later(spec, 0, item, n))
		return 0;
	return launch_put(l, item, n, &l->n_env);
}

static int
launch_env(struct launch *l, const struct guest_spec *spec, const struct guest_spec *kept,
	   uint32_t cpus)
{
	char item[64];
	int err = 0;

	for (size_t i = 0; err == 0 && i < ARRAY_LEN(launch_base_env); i++)
		err = launch_var(l, spec, kept, launch_base_env[i]);
	for (size_t i = 0; err == 0 && i < ARRAY_LEN(launch_cpu_env); i++) {
		uint32_t least = launch_cpu_env[i].least;
		int n = snprintf(item, sizeof(item), "%s=%u", launch_cpu_env[i].name,
				 cpus > least ? cpus : least);

		if (n <= 0 || (size_t)n >= sizeof(item))
			return EINVAL;
		err = launch_var(l, spec, kept, item);
	}
	for (uint32_t i = 0; err == 0 && i < kept->n_env; i++) {
		const struct ipc_str *e = &kept->env[i];

		if (!launch_is_set_later(kept, i + 1, e->data, e->len) &&
		    !launch_is_set_later(spec, 0, e->data, e->len))
			err = launch_put(l, e->data, e->len, &l->n_env);
	}
	for (uint32_t i = 0; err == 0 && i < spec->n_env; i++) {
		const struct ipc_str *e = &spec->env[i];

		if (!launch_is_set_later(spec, i + 1, e->data, e->len))
			err = launch_put(l, e->data, e->len, &l->n_env);
	}
	return err;
}

static void
launch_reset(struct launch *l)
{
	l->n_argv = 0;
	l->n_env = 0;
	l->with_control = 0;
	l->len = 0;
	(void)snprintf(l->cwd, sizeof(l->cwd), "%s", GUEST_WORKSPACE);
}

/* The words of an interpreter that stays; false: the kind is another. */
static bool
launch_driver_words(struct launch *l, uint32_t kind, int *ret_err)
{
	for (size_t i = 0; i < ARRAY_LEN(launch_drivers); i++) {
		if (launch_drivers[i].kind != kind)
			continue;
		l->with_control = 1;
		*ret_err = launch_arg(l, launch_drivers[i].words[0]);
		if (*ret_err == 0 && launch_drivers[i].words[1] != NULL)
			*ret_err = launch_arg(l, launch_drivers[i].words[1]);
		return true;
	}
	return false;
}

/* The first byte bash would take for an option's. */
static bool
launch_is_like_option(const struct guest_spec *spec)
{
	return spec->code.len > 0 && (spec->code.data[0] == '-' || spec->code.data[0] == '+');
}

/* "python3 main.py", "bash -c text", …, without the run's own arguments. */
static int
launch_words(struct launch *l, const struct guest_spec *spec, const char *program, bool waits)
{
	char file[sizeof(GUEST_WORKSPACE) + 16];
	bool elsewhere = spec->cwd.len > 0;
	int err = launch_arg(l, program);

	if (err == 0 && launch_driver_words(l, spec->kind, &err))
		return err;
	if (err == 0 && spec->kind == RUN_COMMAND) {
		err = launch_arg(l, "-c");
		if (err == 0 && launch_is_like_option(spec))
			err = launch_arg(l, "--");
		if (err == 0)
			err = launch_put(l, spec->code.data, spec->code.len, &l->n_argv);
		if (err == 0 && spec->n_args > 0)
			err = launch_arg(l, "bash"); /* $0: the arguments start at $1 */
		return err;
	}
	if (err == 0 && spec->kind == RUN_NODE) {
		err = launch_arg(l, "--require");
		if (err == 0)
			err = launch_arg(l,
					 waits ? BOX_DIR "/node/wait.js" : BOX_DIR "/node/hook.js");
	}
	(void)snprintf(file, sizeof(file), "%s%s", elsewhere ? GUEST_WORKSPACE "/" : "",
		       launch_file(spec->kind));
	return err == 0 ? launch_arg(l, file) : err;
}

static int
launch_fill(struct launch *l, const struct guest_spec *spec, const struct guest_spec *kept,
	    uint32_t cpus, bool waits)
{
	const char *program = launch_program(spec->kind);
	int err;

	if (program == NULL && spec->kind != RUN_ARGV)
		return EINVAL;
	launch_reset(l);
	l->with_control = waits ? 1 : 0;
	if (spec->cwd.len > 0 &&
	    str_copy(l->cwd, sizeof(l->cwd), spec->cwd.data, spec->cwd.len) < 0)
		return ENAMETOOLONG;
	err = program == NULL ? launch_find_named(l, spec, kept) : launch_find(l, program);
	if (err == 0 && program != NULL)
		err = launch_words(l, spec, program, waits);
	for (uint32_t i = 0; err == 0 && i < spec->n_args; i++)
		err = launch_put(l, spec->args[i].data, spec->args[i].len, &l->n_argv);
	return err == 0 ? launch_env(l, spec, kept, cpus) : err;
}

int
launch_fill_run(struct launch *l, const struct guest_spec *spec, const struct guest_spec *kept,
		uint32_t cpus)
{
	return launch_fill(l, spec, kept, cpus, false);
}

uint32_t
launch_waiting_kind(uint32_t box_class)
{
	if (box_class == BOX_PYTHON)
		return RUN_PYTHON;
	return box_class == BOX_NODE ? RUN_NODE : RUN_BASH;
}

int
launch_fill_waiting(struct launch *l, uint32_t box_class, uint32_t cpus)
{
	/* Variables that make an interpreter read its hook; node is told by an argument. */
	static const char for_python[] = "PYTHONPATH=" BOX_DIR "/python";
	static const char for_bash[] = "BASH_ENV=" BOX_DIR "/bash/wait.sh";
	static const struct guest_spec none = {0};
	const struct guest_spec spec = {.kind = launch_waiting_kind(box_class)};
	int err = launch_fill(l, &spec, &none, cpus, true);

	if (err == 0 && spec.kind == RUN_PYTHON)
		err = launch_put(l, for_python, sizeof(for_python) - 1, &l->n_env);
	if (err == 0 && spec.kind == RUN_BASH)
		err = launch_put(l, for_bash, sizeof(for_bash) - 1, &l->n_env);
	return err;
}

int
launch_write_code(const struct guest_spec *spec)
{
	char path[sizeof(GUEST_WORKSPACE) + 16];
	cleanup_close int fd = -1;
	int r;

	if (launch_file(spec->kind) == NULL)
		return 0;
	(void)snprintf(path, sizeof(path), "%s/%s", GUEST_WORKSPACE, launch_file(spec->kind));
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0644);
	if (fd == -1)
		return errno;
	r = fd_write_all(fd, spec->code.data, spec->code.len);
	return r < 0 ? -r : 0;
}
