/*
 * tests/unit/test_guest_launch.c - the words and variables a run is started with.
 * Runs in: ctest.
 * Input: none; where programs are is faked.
 * Owns: struct launch.
 */
#include "test.h"
#include "guest_fakes.h"

#include <sys/stat.h>

static const char *only_path; /* the one program access() finds; NULL: all */
static const char *directory; /* what exists and is no program */
static char code_path[32];    /* where open() was sent */
static int code_fd;

int __wrap_access(const char *path, int mode);
int __wrap_stat(const char *path, struct stat *ret);
int __wrap_open(const char *path, int flags, ...);
int __real_open(const char *path, int flags, ...);

int
__wrap_access(const char *path, int mode)
{
	(void)mode;
	if (only_path != NULL && strcmp(path, only_path) != 0) {
		errno = ENOENT;
		return -1;
	}
	return 0;
}

int
__wrap_stat(const char *path, struct stat *ret)
{
	bool is_directory = directory != NULL && strcmp(path, directory) == 0;

	*ret = (struct stat){.st_mode = is_directory ? S_IFDIR | 0755 : S_IFREG | 0755};
	return 0;
}

int
__wrap_open(const char *path, int flags, ...)
{
	if (strncmp(path, GUEST_WORKSPACE "/", sizeof(GUEST_WORKSPACE)) != 0)
		return __real_open(path, flags, 0);
	(void)snprintf(code_path, sizeof(code_path), "%s", path + sizeof(GUEST_WORKSPACE));
	if (code_fd < 0)
		errno = ENOSPC;
	return code_fd;
}

static struct launch launch;
static const struct guest_spec none;

/* The items of argv, then "|", then those of the environment, each followed by a blank. */
static const char *
joined(void)
{
	static char text[8192];
	const char *at = launch.text;
	size_t len = 0;

	for (uint32_t i = 0; i < launch.n_argv + launch.n_env; i++) {
		int n = snprintf(text + len, sizeof(text) - len, "%s%s ",
				 i == launch.n_argv ? "| " : "", at);

		assert_true(n > 0 && (size_t)n < sizeof(text) - len);
		len += (size_t)n;
		at += strlen(at) + 1;
	}
	assert_int_equal(at - launch.text, launch.len);
	return text;
}

#define CACHES "XDG_CACHE_HOME=/tmp/.cache MPLCONFIGDIR=/tmp/.matplotlib "
#define BASE_ENV                                                                             \
	"PATH=/usr/local/bin:/usr/bin:/bin HOME=/workspace USER=bailey LANG=C.UTF-8 " CACHES \
	"PYTHON_CPU_COUNT=2 OMP_NUM_THREADS=2 UV_THREADPOOL_SIZE=4 "

static struct guest_spec
spec_of(uint32_t kind, const char *code)
{
	return (struct guest_spec){
		.kind = kind,
		.code = {.data = (const uint8_t *)code, .len = strlen(code)},
	};
}

static void
test_launch_fill_run_words(void **state)
{
	static const struct {
		uint32_t kind;
		bool args;
		const char *cwd, *want;
	} cases[] = {
		{RUN_PYTHON, false, "", "python3 main.py | " BASE_ENV},
		{RUN_PYTHON, true, "", "python3 main.py a b=c | " BASE_ENV},
		{RUN_PYTHON, false, "/tmp", "python3 /workspace/main.py | " BASE_ENV},
		{RUN_NODE, true, "",
		 "node --require /.bailey/node/hook.js main.js a b=c | " BASE_ENV},
		{RUN_BASH, true, "", "bash main.sh a b=c | " BASE_ENV},
		{RUN_COMMAND, false, "/tmp", "bash -c code | " BASE_ENV},
		{RUN_COMMAND, true, "", "bash -c code bash a b=c | " BASE_ENV},
	};
	struct ipc_str args[] = {IPC_STR("a"), IPC_STR("b=c")};

	(void)state;
	only_path = NULL;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct guest_spec spec = spec_of(cases[i].kind, "code");

		spec.cwd = IPC_STR(cases[i].cwd);
		spec.args = args;
		spec.n_args = cases[i].args ? 2 : 0;
		assert_int_equal(launch_fill_run(&launch, &spec, &none, 2), 0);
		assert_string_equal(joined(), cases[i].want);
		assert_string_equal(launch.cwd, *cases[i].cwd ? cases[i].cwd : GUEST_WORKSPACE);
		assert_int_equal(launch.with_control, 0);
	}
}

static void
test_launch_a_command_is_no_option(void **state)
{
	static const struct {
		const char *command, *want;
	} cases[] = {
		{"-x", "bash -c -- -x | " BASE_ENV},         {"+x", "bash -c -- +x | " BASE_ENV},
		{"--help", "bash -c -- --help | " BASE_ENV}, {"", "bash -c  | " BASE_ENV},
		{"x -y", "bash -c x -y | " BASE_ENV},
	};

	(void)state;
	only_path = NULL;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct guest_spec spec = spec_of(RUN_COMMAND, cases[i].command);

		assert_int_equal(launch_fill_run(&launch, &spec, &none, 2), 0);
		assert_string_equal(joined(), cases[i].want);
	}
}

static void
test_launch_fill_run_env(void **state)
{
	struct ipc_str env[] = {IPC_STR("A=1"), IPC_STR("LANG=C"), IPC_STR("A=2"), IPC_STR("AB=")};
	struct guest_spec spec = spec_of(RUN_COMMAND, "x");

	(void)state;
	only_path = NULL;
	spec.env = env;
	spec.n_env = ARRAY_LEN(env);
	assert_int_equal(launch_fill_run(&launch, &spec, &none, 0), 0);
	assert_string_equal(joined(),
			    "bash -c x | PATH=/usr/local/bin:/usr/bin:/bin HOME=/workspace "
			    "USER=bailey " CACHES
			    "PYTHON_CPU_COUNT=1 OMP_NUM_THREADS=1 UV_THREADPOOL_SIZE=4 "
			    "LANG=C A=2 AB= ");
}

/* What is kept for all runs stands above the usual and beneath a run's own. */
static void
test_launch_kept_env(void **state)
{
	struct ipc_str kept_env[] = {IPC_STR("A=kept"), IPC_STR("LANG=C"), IPC_STR("B=1"),
				     IPC_STR("B=2"), IPC_STR("PATH=/opt/bin")};
	struct ipc_str env[] = {IPC_STR("A=own"), IPC_STR("C=")};
	struct ipc_str args[] = {IPC_STR("prog")};
	struct guest_spec kept = {.kind = RUN_ENV, .env = kept_env, .n_env = ARRAY_LEN(kept_env)};
	struct guest_spec spec = spec_of(RUN_COMMAND, "x");

	(void)state;
	only_path = NULL;
	spec.env = env;
	spec.n_env = ARRAY_LEN(env);
	assert_int_equal(launch_fill_run(&launch, &spec, &kept, 0), 0);
	assert_string_equal(joined(),
			    "bash -c x | HOME=/workspace USER=bailey " CACHES "PYTHON_CPU_COUNT=1 "
			    "OMP_NUM_THREADS=1 UV_THREADPOOL_SIZE=4 LANG=C B=2 "
			    "PATH=/opt/bin A=own C= ");
	only_path = "/opt/bin/prog"; /* its PATH counts where a program is looked for */
	spec = (struct guest_spec){.kind = RUN_ARGV, .args = args, .n_args = 1};
	assert_int_equal(launch_fill_run(&launch, &spec, &kept, 0), 0);
	assert_int_equal(launch_fill_run(&launch, &spec, &none, 0), ENOENT);
	env[1] = IPC_STR("PATH=/bin");
	spec.env = env;
	spec.n_env = 2;
	assert_int_equal(launch_fill_run(&launch, &spec, &kept, 0), ENOENT);
	only_path = NULL;
}

static void
test_launch_finds_the_program(void **state)
{
	struct guest_spec spec = spec_of(RUN_NODE, "x");

	(void)state;
	only_path = "/bin/node";
	assert_int_equal(launch_fill_run(&launch, &spec, &none, 1), 0);
	assert_string_equal(launch.path, "/bin/node");
	only_path = "/opt/node";
	assert_int_equal(launch_fill_run(&launch, &spec, &none, 1), 0); /* known from before */
	assert_string_equal(launch.path, "/bin/node");
	launch.program = "python3";
	assert_int_equal(launch_fill_run(&launch, &spec, &none, 1), ENOENT);
	assert_null(launch.program);
	only_path = NULL;
	spec.kind = 99;
	assert_int_equal(launch_fill_run(&launch, &spec, &none, 1), EINVAL);
}

static void
test_launch_passes_directories_by(void **state)
{
	struct ipc_str args[] = {IPC_STR("prog")};
	struct ipc_str env[] = {IPC_STR("PATH=/opt/bin:/bin")};
	struct guest_spec spec = spec_of(RUN_PYTHON, "x");
	struct guest_spec named = {
		.kind = RUN_ARGV, .args = args, .n_args = 1, .env = env, .n_env = 1};

	(void)state;
	only_path = NULL;
	launch.program = NULL;
	directory = "/usr/local/bin/python3";
	assert_int_equal(launch_fill_run(&launch, &spec, &none, 1), 0);
	assert_string_equal(launch.path, "/usr/bin/python3");
	directory = "/opt/bin/prog";
	assert_int_equal(launch_fill_run(&launch, &named, &none, 1), 0);
	assert_string_equal(launch.path, "/bin/prog");
	only_path = directory;
	assert_int_equal(launch_fill_run(&launch, &named, &none, 1), EACCES);
	only_path = NULL;
	directory = NULL;
}

static void
test_launch_argv(void **state)
{
	static const struct {
		const char *name, *path_env, *exists, *want;
		int err;
	} cases[] = {
		{"prog", NULL, "/usr/bin/prog", "/usr/bin/prog", 0},
		{"prog", "PATH=/opt/bin:/bin", "/bin/prog", "/bin/prog", 0},
		{"prog", "PATH=/opt/bin", "/usr/bin/prog", NULL, ENOENT},
		{"prog", "PATH=bin:.::/bin", "/bin/prog", "/bin/prog", 0},
		{"prog", "PATH=bin:.", "bin/prog", NULL, ENOENT}, /* not this process' directory */
		{"prog", "PATH=", "/prog", NULL, ENOENT},
		{"", NULL, "/usr/bin/", NULL, ENOENT},
		{"./prog", NULL, "", "./prog", 0}, /* exec finds out, below the run's directory */
		{"/x/prog", NULL, "", "/x/prog", 0},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct ipc_str args[] = {IPC_STR(cases[i].name), IPC_STR("-c"), IPC_STR("a b")};
		struct ipc_str env[1];
		struct guest_spec spec = {.kind = RUN_ARGV, .args = args, .n_args = 3, .env = env};

		if (cases[i].path_env != NULL) {
			env[0] = IPC_STR(cases[i].path_env);
			spec.n_env = 1;
		}
		only_path = cases[i].exists;
		assert_int_equal(launch_fill_run(&launch, &spec, &none, 2), cases[i].err);
		if (cases[i].err != 0)
			continue;
		assert_string_equal(launch.path, cases[i].want);
		assert_int_equal(launch.n_argv, 3);
		assert_string_equal(launch.text, cases[i].name);
		assert_string_equal(launch.text + strlen(cases[i].name) + 1, "-c");
		assert_null(launch.program); /* the next bash is looked for again */
	}
	only_path = NULL;
	assert_int_equal(launch_write_code(&(struct guest_spec){.kind = RUN_ARGV}), 0);
}

static void
test_launch_interpreters_that_stay(void **state)
{
	static const struct {
		uint32_t kind;
		const char *want;
	} cases[] = {
		{RUN_EVAL_PYTHON, "python3 /.bailey/python/eval.py | " BASE_ENV},
		{RUN_EVAL_NODE, "node /.bailey/node/eval.js | " BASE_ENV},
		{RUN_EVAL_BASH,
		 "bash -c . /.bailey/bash/eval.sh; while { _bailey_done 0; } 2>/dev/null; "
		 "_bailey_answer; { _bailey_next; } 2>/dev/null; do "
		 "for _bailey_one in 1; do builtin eval -- \"$_bailey_code\" 199>&-; done; "
		 "{ _bailey_done $?; } 2>/dev/null; done | " BASE_ENV},
	};

	(void)state;
	only_path = NULL;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct guest_spec spec = spec_of(cases[i].kind, "code");

		assert_int_equal(launch_write_code(&spec),
				 0); /* no file: it comes by the control */
		assert_int_equal(launch_fill_run(&launch, &spec, &none, 2), 0);
		assert_string_equal(joined(), cases[i].want);
		assert_int_equal(launch.with_control, 1);
		assert_int_equal(launch.n_argv, cases[i].kind == RUN_EVAL_BASH ? 3 : 2);
	}
}

static void
test_launch_too_big(void **state)
{
	static char big[SPEC_ITEM_MAX];
	struct ipc_str args[40];
	struct guest_spec spec = spec_of(RUN_BASH, "x");

	(void)state;
	only_path = NULL;
	memset(big, 'a', sizeof(big));
	for (size_t i = 0; i < ARRAY_LEN(args); i++)
		args[i] = (struct ipc_str){big, sizeof(big)};
	spec.args = args;
	spec.n_args = ARRAY_LEN(args);
	assert_int_equal(launch_fill_run(&launch, &spec, &none, 1), E2BIG);
	spec.n_args = 0;
	spec.cwd = (struct ipc_str){big, sizeof(big)};
	assert_int_equal(launch_fill_run(&launch, &spec, &none, 1), ENAMETOOLONG);
}

static void
test_launch_fill_waiting(void **state)
{
	(void)state;
	only_path = NULL;
	assert_int_equal(launch_fill_waiting(&launch, BOX_PYTHON, 2), 0);
	assert_string_equal(joined(), "python3 main.py | " BASE_ENV "PYTHONPATH=/.bailey/python ");
	assert_int_equal(launch.with_control, 1);
	assert_int_equal(launch_fill_waiting(&launch, BOX_NODE, 2), 0);
	assert_string_equal(joined(), "node --require /.bailey/node/wait.js main.js | " BASE_ENV);
	assert_int_equal(launch.with_control, 1);
	assert_int_equal(launch_fill_waiting(&launch, BOX_SHELL, 2), 0);
	assert_string_equal(joined(), "bash main.sh | " BASE_ENV "BASH_ENV=/.bailey/bash/wait.sh ");
	assert_int_equal(launch.with_control, 1);
}

static void
test_launch_startup_env(void **state)
{
	static const struct {
		const char *item;
		bool startup;
	} cases[] = {
		{"PYTHONPATH=x", true},
		{"PYTHON=", true},
		{"NODE_OPTIONS=", true},
		{"LD_PRELOAD=x", true},
		{"LC_ALL=C", true},
		{"LANG=C", true},
		{"LANGUAGE=de", true},
		{"TZ=UTC", true},
		{"MALLOC_ARENA_MAX=1", true},
		{"GLIBC_TUNABLES=x", true},
		{"UV_THREADPOOL_SIZE=1", true},
		{"HOME=/tmp", true},
		{"PATH=/bin", true},
		{"HOMES=1", false},
		{"PATHS=1", false},
		{"XPYTHON=1", false},
		{"NODE=1", false},
		{"A=LD_", false},
		{"python=1", false},
		{"", false},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		assert_int_equal(launch_is_startup_env(cases[i].item, strlen(cases[i].item)),
				 cases[i].startup);
}

static void
test_launch_write_code(void **state)
{
	static const struct {
		uint32_t kind;
		const char *file;
	} cases[] = {{RUN_PYTHON, "main.py"}, {RUN_NODE, "main.js"}, {RUN_BASH, "main.sh"}};
	char text[8];
	int fds[2];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct guest_spec spec = spec_of(cases[i].kind, "code\n");

		assert_int_equal(pipe(fds), 0);
		code_fd = fds[1];
		assert_int_equal(launch_write_code(&spec), 0);
		assert_string_equal(code_path, cases[i].file);
		assert_int_equal(read(fds[0], text, sizeof(text)), 5);
		assert_int_equal(read(fds[0], text, sizeof(text)), 0); /* closed */
		(void)close(fds[0]);
		code_fd = -1;
		assert_int_equal(launch_write_code(&spec), ENOSPC);
	}
	code_path[0] = '\0';
	assert_int_equal(launch_write_code(&(struct guest_spec){.kind = RUN_COMMAND}), 0);
	assert_string_equal(code_path, "");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_launch_fill_run_words),
		cmocka_unit_test(test_launch_a_command_is_no_option),
		cmocka_unit_test(test_launch_fill_run_env),
		cmocka_unit_test(test_launch_kept_env),
		cmocka_unit_test(test_launch_finds_the_program),
		cmocka_unit_test(test_launch_passes_directories_by),
		cmocka_unit_test(test_launch_argv),
		cmocka_unit_test(test_launch_interpreters_that_stay),
		cmocka_unit_test(test_launch_too_big),
		cmocka_unit_test(test_launch_fill_waiting),
		cmocka_unit_test(test_launch_startup_env),
		cmocka_unit_test(test_launch_write_code),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
