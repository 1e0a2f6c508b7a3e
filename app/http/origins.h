// The pages in browsers that may send requests to a server of this machine: its own pages, and pages of
// origins that are allowed by name. Other pages are refused, also one that makes a name of its own stand for
// this machine's address (DNS rebinding).
#pragma once
#include <string>
#include <vector>

#include "app/http/http.h"

namespace ft {

// True if an address is this machine's own: 127.x.y.z, ::1, localhost.
bool is_own_address(const std::string& host);

class Origins {
 public:
  // `host`: the address at which the server listens. Throws UserError (config) if an allowed origin is not of
  // the form https://example.org:8443.
  Origins(std::string host, std::vector<std::string> allowed);

  // Returns the fault of a request that a page of another origin sent; empty: there is none.
  std::string fault_of_origin(const HttpRequest&) const;
  // Returns the fault of a request that does not name this server as its host; empty: there is none. A server
  // that no key protects has to check it.
  std::string fault_of_host(const HttpRequest&) const;

  // True for the question of a browser before a page of another origin may send a request.
  static bool is_preflight(const HttpRequest&);
  // Adds the headers with which the browser gives the reply to a page of an allowed origin.
  void admit(const HttpRequest&, HttpReply&) const;

 private:
  bool allows(const std::string& origin) const;

  std::string host_;
  std::vector<std::string> allowed_;  // in lower case
};

}  // namespace ft
