/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/demo/options.h"

static const struct option table[] = {
    {"config", "FILE", "the job, as weir-train reads it (default: configs/demo.yaml)", OPTION_TEXT(config)},
    {"data", "FILE", "the text to train on (default: the King James text that run.sh makes)", OPTION_TEXT(data)},
    {"steps", "N", "training steps a run, 1 to 1000 (default: as the config says)", OPTION_COUNT(steps, 1, 1000)},
    {"out", "DIR", "where reports and logs go (default: build/demo; ./weir-demo-report where installed)",
     OPTION_TEXT(out)},
    {"json", "FILE", "write the report as JSON too, to FILE or to standard output", OPTION_OUTPUT(json_path)},
    {"keep", NULL, "keep the traces of the runs, which are large", OPTION_FLAG(keep)},
    {"help", NULL, NULL, OPTION_HELP},
    {"version", NULL, NULL, OPTION_VERSION},
};

const struct option_table demo_options = {
    .program = "weir-demo",
    .usage = "usage: weir-demo [options]\n"
             "Trains one job under several ways of keeping device memory, on emulated devices of one size, and shows\n"
             "what happened.\n",
    .status = "Exit status: 0 answered, also when a run is out of memory; 1 a run failed; 2 bad input.\n",
    .options = table,
    .count = sizeof table / sizeof *table,
};
