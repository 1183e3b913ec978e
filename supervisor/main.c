/*
 * supervisor/main.c - baileyd: command line, environment, exit codes.
 * Runs in: baileyd.
 * Input: argv and environment of the user who starts it.
 * Owns: nothing.
 * Exit codes: on stdio the frontend's; 0 after a signal that asks to end; 1 when the
 * tree cannot be started; 2 for a command line or variable that is wrong.
 */
#include "supervisor.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define EXIT_USAGE 2

static const char usage[] =
	"usage: baileyd --private --stdio [-v]    serve one MCP client on stdin and stdout\n"
	"       baileyd --private [--socket PATH] [--http ADDRESS:PORT --tokens FILE\n"
	"               [--tls CERT KEY [--tls-listen ADDRESS:PORT]] [--host NAME]...]\n"
	"               [--status PATH] [-v]\n"
	"                                         serve every client that connects\n"
	"       baileyd -T                        print the tables this program works from\n"
	"       baileyd --version\n"
	"Started by \"bailey mcp\" and \"bailey serve\". Its settings are environment variables: "
	"see "
	"-T.\n";

static void
print_tables(void)
{
	puts("# environment (options.def)");
	options_print();
	puts("\n# links (wiring.c); the supervisor has one to each");
	for (size_t i = 0; i < WIRING_LINKS; i++)
		printf("%s - %s\n", children_name(wiring_links[i].end[0]),
		       children_name(wiring_links[i].end[1]));
	puts("\n# life of a child (children.c): state, event: action, next state");
	children_print();
}

static int
run_private(const struct arguments *a)
{
	struct options o = {.debug = a->debug};
	struct engine_target engine;
	const char *places[ENGINE_PLACES];
	char room[512], error[1024];

	/* Single-threaded, and nothing here changes the environment. */
	const char *runtime_dir = getenv("XDG_RUNTIME_DIR"); // NOLINT(concurrency-mt-unsafe)
	const char *home = getenv("HOME");                   // NOLINT(concurrency-mt-unsafe)
	engine_env_places(runtime_dir, getuid(), room, sizeof(room), places);
	if (options_from_env(&o, error, sizeof(error)) < 0 ||
	    engine_env_find(&o, places, home, &engine, error, sizeof(error)) < 0) {
		log_error("%s", error);
		return EXIT_USAGE;
	}
	if (o.debug)
		log_init("baileyd", LOG_L_DEBUG);
	return tree_run(&o, &engine, &a->serve);
}

/* What a client ignores its server inherits. With SIGCHLD ignored no child can be waited for; a
 * file limit has to be told as an error, not by a silent end. */
static void
reset_signals(void)
{
	if (signal(SIGCHLD, SIG_DFL) == SIG_ERR || signal(SIGXFSZ, SIG_IGN) == SIG_ERR)
		fatal("signals");
}

int
main(int argc, char **argv)
{
	struct arguments a;
	char error[1024];

	log_init("baileyd", LOG_L_INFO);
	reset_signals();
	if (serve_parse(argc, argv, &a, error, sizeof(error)) < 0) {
		log_error("%s", error);
		(void)fputs(usage, stderr);
		return EXIT_USAGE;
	}
	if (a.version || a.help || a.tables) {
		if (a.version)
			puts("baileyd " BAILEY_VERSION);
		else if (a.help)
			(void)fputs(usage, stdout);
		else
			print_tables();
		return fflush(stdout) == 0 ? 0 : 1;
	}
	log_init("baileyd", a.debug ? LOG_L_DEBUG : a.serve.stdio ? LOG_L_WARNING : LOG_L_INFO);
	if (spawn_check_fds(error, sizeof(error)) < 0) {
		log_error("%s", error);
		return 1;
	}
	if (spawn_reserve_fds() < 0)
		fatal("descriptors");
	spawn_unblock_log();
	return run_private(&a);
}
