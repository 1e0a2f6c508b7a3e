#include "app/commands/server_options.h"

namespace ft::commands {

void add_server_options(CLI::App& app, const ServerOptions& options) {
  app.add_option("--host", options.host, "Address to listen at.")->type_name("HOST")->capture_default_str();
  app.add_option("--port", options.port, "Port to listen at; 0: any free one.")
      ->check(CLI::Range(0, 65535))
      ->type_name("PORT")
      ->capture_default_str();
  app.add_option("--allow-origin", options.allowed_origins,
                 "Origin whose pages in browsers may send requests, such as https://example.org; may be "
                 "repeated.")
      ->allow_extra_args(false)
      ->type_name("ORIGIN");
  app.add_option("--api-key-file", options.key_file, "File whose first line is the key that clients need.")
      ->type_name("FILE");
  app.add_option("--tls-cert", options.https.certificate,
                 "For HTTPS: PEM file of the server's certificate and those between it and its root.")
      ->type_name("FILE");
  app.add_option("--tls-key", options.https.key, "For HTTPS: PEM file of the certificate's private key.")
      ->type_name("FILE");
}

}  // namespace ft::commands
