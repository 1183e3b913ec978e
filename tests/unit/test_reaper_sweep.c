/* reaper/sweep.c: which trees are gone, against a /proc of our own making. */
#include "test.h"
#include "reaper.h"

#include <sys/stat.h>

#define BOOT "11111111-2222-3333-4444-555555555555"
#define OTHER_BOOT "99999999-2222-3333-4444-555555555555"

static char root[] = "/tmp/bailey-sweep.XXXXXX";
static int proc_fd;
static const struct tree_facts own = {
	.boot_id = BOOT, .tree_pid = 100, .tree_start = 5000, .pid_ns = 77};

static void
fake_stat(uint32_t pid, const char *text)
{
	char path[128];

	(void)snprintf(path, sizeof(path), "%s/%u", root, pid);
	(void)mkdir(path, 0700);
	(void)snprintf(path, sizeof(path), "%s/%u/stat", root, pid);
	(void)unlink(path);
	if (text == NULL)
		return;
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(fd_write_all(fd, text, strlen(text)), 0);
	assert_int_equal(close(fd), 0);
}

#define STAT(name, start) \
	"100 (" name ") S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 " start " 20\n"

static int
setup(void **state)
{
	(void)state;
	assert_non_null(mkdtemp(root));
	proc_fd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return proc_fd < 0;
}

static int
teardown(void **state)
{
	char command[64];

	(void)state;
	assert_int_equal(close(proc_fd), 0);
	(void)snprintf(command, sizeof(command), "rm -r %s", root);
	return system(command); // a test's own directory
}

static void
test_start_time(void **state)
{
	uint64_t start = 0;

	(void)state;
	fake_stat(7, STAT("bail) S (ey", "123456"));
	assert_int_equal(sweep_start_time(proc_fd, 7, &start), 0);
	assert_int_equal(start, 123456);
	fake_stat(7, "7 (x) S 1 2\n");
	assert_int_equal(sweep_start_time(proc_fd, 7, &start), -EBADMSG);
	fake_stat(7, "garbage");
	assert_int_equal(sweep_start_time(proc_fd, 7, &start), -EBADMSG);
	fake_stat(7, STAT("x", "-5"));
	assert_true(sweep_start_time(proc_fd, 7, &start) < 0);
	assert_int_equal(sweep_start_time(proc_fd, 8, &start), -ESRCH);
	/* the real one agrees with itself */
	int real = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	uint64_t again = 0;
	assert_int_equal(sweep_start_time(real, (uint32_t)getpid(), &start), 0);
	assert_int_equal(sweep_start_time(real, (uint32_t)getpid(), &again), 0);
	assert_true(start > 0 && start == again);
	assert_int_equal(close(real), 0);
}

static void
test_verdicts(void **state)
{
	static const struct {
		const char *boot;
		uint32_t pid;
		uint64_t start, ns;
		uint32_t running;
		uint64_t age;
		bool dead;
	} rows[] = {
		/* the machine was started anew since */
		{OTHER_BOOT, 100, 5000, 77, 1, 5, true},
		{OTHER_BOOT, 200, 6000, 0, 0, 0, true},
		/* alive: the tree's process is there with its start time */
		{BOOT, 200, 6000, 77, 1, 5000, false},
		{BOOT, 200, 6000, 77, 0, 5000, false},
		/* gone, or its number is somebody else's now */
		{BOOT, 201, 6000, 77, 1, 5, true},
		{BOOT, 200, 6001, 77, 1, 5, true},
		/* another pid namespace, or unknown: only old ones never started */
		{BOOT, 201, 6000, 78, 1, 5000, false},
		{BOOT, 201, 6000, 78, 0, 60, false},
		{BOOT, 201, 6000, 78, 0, 61, true},
		{BOOT, 201, 6000, 0, 0, 5000, true},
		{BOOT, 201, 6000, 0, 1, 5000, false},
		/* no boot id, or not one: the same */
		{"", 201, 6000, 77, 1, 5000, false},
		{"", 201, 6000, 77, 0, 61, true},
		{"short", 201, 6000, 77, 1, 5000, false},
	};

	(void)state;
	fake_stat(100, STAT("baileyd", "5000"));
	fake_stat(200, STAT("baileyd", "6000"));
	fake_stat(201, NULL);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct ipc_sweep_candidate c = {
			.container = IPC_STR("x"),
			.boot_id = IPC_STR(rows[i].boot),
			.tree_pid = rows[i].pid,
			.tree_start = rows[i].start,
			.pid_ns = rows[i].ns,
			.running = rows[i].running,
			.age_s = rows[i].age,
		};
		assert_int_equal(sweep_is_dead(proc_fd, &own, &c), rows[i].dead);
	}
}

/* A /proc that hides our own supervisor (hidepid) says nothing about others. */
static void
test_hidden_proc_is_not_death(void **state)
{
	struct ipc_sweep_candidate c = {.boot_id = IPC_STR(BOOT),
					.tree_pid = 201,
					.tree_start = 6000,
					.pid_ns = 77,
					.running = 1,
					.age_s = 5000};

	(void)state;
	fake_stat(201, NULL);
	fake_stat(100, NULL);
	assert_false(sweep_is_dead(proc_fd, &own, &c));
	fake_stat(100, STAT("baileyd", "1"));
	assert_false(sweep_is_dead(proc_fd, &own, &c));
	c.running = 0;
	assert_true(sweep_is_dead(proc_fd, &own, &c));
	/* its stat cannot be read for another reason than that it is gone */
	fake_stat(100, STAT("baileyd", "5000"));
	fake_stat(201, "garbage");
	c.running = 1;
	assert_false(sweep_is_dead(proc_fd, &own, &c));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_start_time),
		cmocka_unit_test(test_verdicts),
		cmocka_unit_test(test_hidden_proc_is_not_death),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
