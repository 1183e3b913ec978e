/*
 * tests/conformance/fixtures.h - what the rows of fixtures_*.def name; see fixtures.c.
 */
#ifndef BAILEY_CONFORMANCE_FIXTURES_H
#define BAILEY_CONFORMANCE_FIXTURES_H

#include <cjson/cJSON.h>

#include "frontend.h"

void tool_fixture(const struct tool_request *rq, enum tool_no tool);
void tool_fixture_logging(const struct tool_request *rq, enum tool_no tool);
void tool_fixture_progress(const struct tool_request *rq, enum tool_no tool);
void tool_fixture_capability(const struct tool_request *rq, enum tool_no tool);
void tool_fixture_request(const struct tool_request *rq, enum tool_no tool);
void tool_fixture_ask(const struct tool_request *rq, enum tool_no tool);

cJSON *prompt_fixture_simple(const struct prompt_request *rq);
cJSON *prompt_fixture_arguments(const struct prompt_request *rq);
cJSON *prompt_fixture_resource(const struct prompt_request *rq);
cJSON *prompt_fixture_image(const struct prompt_request *rq);
cJSON *prompt_fixture_ask(const struct prompt_request *rq);

void
resource_fixture(struct frontend *fe, const struct reply_to *to, const char *uri, const char *rest);
void resource_fixture_template(struct frontend *fe, const struct reply_to *to, const char *uri,
			       const char *rest);

#endif
