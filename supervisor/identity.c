/*
 * supervisor/identity.c - which user runs which process.
 * Runs in: baileyd; identity_become_child in a child between fork and exec.
 * Input: the account database, asked for in a helper process.
 * Owns: nothing.
 * Started as root, no process of the tree stays root: each gets the package's
 * account, or where those are not installed a fixed number that belongs to
 * nobody. Started by a plain user, all keep that user's ids.
 */
#include "supervisor.h"

#include <errno.h>
#include <grp.h>
#include <linux/capability.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define LOOKUP_MS 5000u
#define CAP_BIT(cap) (1u << (cap))
#define SELF_CAPS (CAP_BIT(CAP_SETUID) | CAP_BIT(CAP_SETGID) | CAP_BIT(CAP_KILL))
#define ROLE_SELF CHILD_COUNT
#define ROLE_TLS (CHILD_COUNT + 1)
#define ROLES (CHILD_COUNT + 2)

/* The package's accounts, and the numbers that stand in for them: above every range that
 * distributions and systemd give to accounts, and below 65536 so that they exist inside a common
 * user namespace as well. */
static const struct {
	const char *name;
	uint32_t fixed;
} accounts[ROLES] = {
	[CHILD_FRONTEND] = {"bailey-frontend", 60601},
	[CHILD_BROKER] = {"bailey-broker", 60602},
	[CHILD_REAPER] = {"bailey-reaper", 60603},
	[ROLE_SELF] = {"bailey", 60604},
	[ROLE_TLS] = {"bailey-tls", 60605},
};

struct account_answer {
	struct role_ids ids[ROLES];
	uint32_t taken; /* a fixed number that is somebody's, 0 none */
	bool have_docker_gid;
	gid_t docker_gid;
};

/* ---- in a helper process of one thread: the plain calls do. NOLINTBEGIN(concurrency-mt-unsafe)
 * ---- */

/* No such account, told apart from an answer that never came: the second taken for the first would
 * run a tree under the wrong ids. What errno says of the first differs between services; these
 * are the failures (getpwnam(3)). */
static bool
nobody_answered(void)
{
	return errno == ENOMEM || errno == EMFILE || errno == ENFILE || errno == EIO ||
	       errno == EINTR || errno == ERANGE;
}

static int
ask_role_accounts(struct account_answer *a, bool *installed)
{
	*installed = true;
	for (size_t i = 0; i < ROLES && *installed; i++) {
		errno = 0;
		const struct passwd *p = getpwnam(accounts[i].name);
		if (p == NULL && nobody_answered())
			return -errno;
		*installed = p != NULL && p->pw_uid != 0 && p->pw_gid != 0;
		if (*installed)
			a->ids[i] = (struct role_ids){.uid = p->pw_uid, .gid = p->pw_gid};
	}
	return 0;
}

static int
ask_fixed_ids(struct account_answer *a)
{
	for (uint32_t i = 0; i < ROLES; i++) {
		uint32_t id = accounts[i].fixed;
		errno = 0;
		bool taken = getpwuid(id) != NULL || (!nobody_answered() && getgrgid(id) != NULL);
		if (!taken && nobody_answered())
			return -errno;
		if (taken)
			a->taken = id;
		a->ids[i] = (struct role_ids){.uid = id, .gid = id};
	}
	return 0;
}

static int
ask_accounts(const void *question, void *answer, size_t cap)
{
	struct account_answer *a = answer;
	bool installed = false;

	(void)question;
	memset(answer, 0, cap);
	int r = ask_role_accounts(a, &installed);
	if (r == 0 && !installed)
		r = ask_fixed_ids(a);
	if (r < 0)
		return r;
	errno = 0;
	const struct group *g = getgrnam("docker");
	if (g == NULL && nobody_answered())
		return -errno;
	if (g != NULL) {
		a->have_docker_gid = true;
		a->docker_gid = g->gr_gid;
	}
	return 0;
}

/* NOLINTEND(concurrency-mt-unsafe) */

static int
caps_get(uint32_t *ret_permitted)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[2] = {{.effective = 0}};

	if (syscall(SYS_capget, &head, data) == -1)
		return -errno;
	*ret_permitted = data[0].permitted;
	return 0;
}

static int
caps_set(uint32_t keep, uint32_t inheritable)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[2] = {
		{.effective = keep, .permitted = keep, .inheritable = inheritable}};

	return syscall(SYS_capset, &head, data) == -1 ? -errno : 0;
}

int
identity_find(struct identity *ret, char *error, size_t cap)
{
	struct identity id = {.switch_ids = geteuid() == 0};
	struct account_answer a = {.taken = 0};
	uint32_t permitted = 0;

	if (!id.switch_ids) {
		*ret = id;
		return 0;
	}
	int r = caps_get(&permitted);
	if (r == 0 && (permitted & SELF_CAPS) != SELF_CAPS) {
		(void)snprintf(
			error, cap,
			"root here lacks CAP_SETUID, CAP_SETGID or CAP_KILL; start as a plain "
			"user instead");
		return -EPERM;
	}
	if (r == 0)
		r = lookup_run(ask_accounts, NULL, &a, sizeof(a), LOOKUP_MS);
	if (r < 0) {
		(void)snprintf(error, cap, "account lookup: %s%s", strerrordesc_np(-r),
			       spawn_hint(r));
		return r;
	}
	if (a.taken != 0) {
		(void)snprintf(error, cap,
			       "id %u is somebody's account here; create the accounts bailey, "
			       "bailey-frontend, bailey-broker, bailey-reaper and bailey-tls",
			       a.taken);
		return -EEXIST;
	}
	for (size_t i = 0; i < CHILD_COUNT; i++)
		id.child[i] = a.ids[i];
	id.self = a.ids[ROLE_SELF];
	id.tls = a.ids[ROLE_TLS];
	id.have_engine_gid = a.have_docker_gid;
	id.engine_gid = a.docker_gid;
	*ret = id;
	return 0;
}

/* With no_new_privs nothing could be gained through the bounding set any more; what is not
 * there need not be argued about. Without CAP_SETPCAP it stays as it is. */
static int
drop_bounding(uint32_t keep)
{
	for (unsigned cap = 0; cap < 64; cap++) {
		if (cap < 32 && (keep & CAP_BIT(cap)) != 0)
			continue;
		if (prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) == -1) {
			/* EINVAL: past the last one this kernel knows. */
			if (errno == EINVAL || errno == EPERM)
				return 0;
			return -errno;
		}
	}
	return 0;
}

static int
become(struct role_ids ids, const gid_t *group, size_t n_groups)
{
	/* Capabilities would go with uid 0; what is not wanted goes by capset right after. */
	if (prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) == -1 || setgroups(n_groups, group) == -1 ||
	    setresgid(ids.gid, ids.gid, ids.gid) == -1 ||
	    setresuid(ids.uid, ids.uid, ids.uid) == -1)
		return -errno;
	return 0;
}

int
identity_become_self(const struct identity *id)
{
	if (!id->switch_ids)
		return 0;
	int r = drop_bounding(SELF_CAPS);
	if (r == 0)
		r = become(id->self, NULL, 0);
	return r < 0 ? r : caps_set(SELF_CAPS, 0);
}

int
identity_become_child(const struct identity *id, enum child_id child)
{
	if (!id->switch_ids)
		return 0;
	bool engine = child == CHILD_BROKER && id->have_engine_gid;
	uint32_t keep = child == CHILD_REAPER ? CAP_BIT(CAP_KILL) : 0;
	int r = drop_bounding(keep);
	if (r == 0)
		r = become(id->child[child], &id->engine_gid, engine ? 1 : 0);
	if (r == 0)
		r = caps_set(keep, keep);
	if (r < 0 || keep == 0)
		return r;
	return prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAP_KILL, 0, 0) == -1 ? -errno : 0;
}

/* stunnel reads its key as root and gives root up itself; the keeper has to be able to end it. */
int
identity_become_keeper(const struct identity *id)
{
	const uint32_t keep = SELF_CAPS | CAP_BIT(CAP_NET_BIND_SERVICE);

	if (!id->switch_ids)
		return 0;
	int r = drop_bounding(keep);
	return r < 0 ? r : caps_set(keep, 0);
}
