// SPDX-License-Identifier: Apache-2.0
// Ctrl-C and SIGTERM ask the program to stop at its next safe point; the second one ends it at
// once.
#pragma once

namespace tephra {

// Blocking system calls return EINTR afterwards, so that a prompt that waits for input stops, too.
void install_signal_handlers();

bool interrupted();

// Throws Fault::interrupted (exit code 130) when asked to stop.
void stop_if_interrupted();

}  // namespace tephra
