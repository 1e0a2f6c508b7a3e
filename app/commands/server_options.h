// Options of the commands that serve pages over HTTP.
#pragma once
#include "app/commands/command.h"

namespace ft::commands {

struct ServerOptions {
  std::string& host;
  int& port;
  Names& allowed_origins;
};
void add_server_options(CLI::App& app, const ServerOptions& options);  // --host, --port, --allow-origin

}  // namespace ft::commands
