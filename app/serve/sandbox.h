// ft serve --sandbox: the files and system calls of a server that serves on CPUs.
#pragma once
#include "app/serve/serve.h"

namespace ft {

// Confines the process; call it before any file of the model is read. From then on the process can read only
// the files of the model and its adapters, files that options and settings name, and the system's libraries
// and facts. It can write no file and run no program. Returns a line that says so. Throws UserError (config)
// if the kernel cannot confine a process, or the server needs more: a GPU, or a GGUF file, which is unpacked.
std::string enter_sandbox(const ServeArgs&);
// Forbids opening files and making sockets; call it when the server listens.
void close_sandbox();

}  // namespace ft
