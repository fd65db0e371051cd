// SPDX-License-Identifier: Apache-2.0
// Ctrl-C and SIGTERM ask the program to stop at its next safe point; the second one, a tenth
// of a second later or more, ends it at once.
#pragma once

namespace tephra {

// Blocking system calls return EINTR afterwards, so that a prompt that waits for input stops, too.
void install_signal_handlers();

// From now on the calling thread takes signals on a stack of their own. For threads that call a
// library which moves the stack pointer into memory of its own, as oneDNN's products do: a handler
// on that "stack" would write below the block, into whatever the heap has there.
void use_signal_stack();

bool interrupted();

// Forgets one Ctrl-C, so that the program goes on; false when there was none. SIGTERM is never
// forgotten.
bool take_interrupt();

// Throws Fault::interrupted (exit code 130) when asked to stop.
void stop_if_interrupted();

}  // namespace tephra
