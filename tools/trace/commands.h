/* SPDX-License-Identifier: Apache-2.0 */
/* The commands of weir-trace, one file or group of files each. argument[0] is the command's name; gives the exit
 * status: 0 done, 1 failed, 2 bad input. --help is each command's own. */
#ifndef WEIR_TRACE_COMMANDS_H
#define WEIR_TRACE_COMMANDS_H

/* X(name, function, text) */
#define TRACE_COMMANDS(X)                                                                                              \
    X(convert, weir_trace_convert, "other programs' logs of memory, made a trace")                                     \
    X(gen, weir_trace_gen, "makes traces of modelled training steps")                                                  \
    X(info, weir_trace_info, "says what a trace holds: where the memory goes")                                         \
    X(pack, weir_trace_pack, "compresses a recorded trace")

#define TRACE_COMMAND_DECLARE(name, function, text) int function(int count, char **argument);
TRACE_COMMANDS(TRACE_COMMAND_DECLARE)

#endif
