// Certificates for tests, made by the openssl program.
#pragma once
#include <cstdlib>
#include <string>

namespace ft::test {

// Writes NAME.cert.pem, of localhost and 127.0.0.1, signed by itself, and its key NAME.key.pem into a folder.
// days until it expires; 0: it expires at once. Returns false if there is no openssl program.
inline bool make_certificate(const std::string& folder, const std::string& name, int days = 30) {
  const std::string path = "'" + folder + "/" + name;
  const std::string made =
      "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj /CN=localhost "
      "-addext subjectAltName=DNS:localhost,IP:127.0.0.1 -days " +
      std::to_string(days) + " -keyout " + path + ".key.pem' -out " + path + ".cert.pem' 2>/dev/null";
  return std::system(made.c_str()) == 0;
}

}  // namespace ft::test
