// ft serve --sandbox: the files and system calls of a server that serves on CPUs.
#pragma once
#include "app/serve/serve.h"

namespace ft {

// Call it before anything of the model is read: from now on the process reads the model's files, those of its
// adapters, files that settings name, and the system's libraries and facts; it writes none and runs no
// program. Returns a line that says so. Throws UserError (config) if the kernel cannot confine a process, or
// the server needs more: a GPU, or a GGUF file, which is unpacked.
std::string enter_sandbox(const ServeArgs&);
// Call it when the server listens: from now on the process opens no file and makes no socket.
void close_sandbox();

}  // namespace ft
