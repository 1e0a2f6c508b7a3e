// Requests to the hub: its addresses, redirects to other hosts, and its refusals in words.
#pragma once
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "app/hub/access.h"
#include "app/hub/http_client.h"
#include "app/hub/listing.h"
#include "app/hub/patience.h"
#include "engine/files/hub_cache.h"

namespace ft::hub {

// Requests about one model or data set, for one thread. The token goes to the endpoint's host only; a
// redirect from https to http is refused.
class Client {
 public:
  // `access` and `http` must outlive the client.
  Client(const Access& access, HubName name, HttpClient& http);

  // Returns the files at the name's revision. Throws Trouble; UserError (input) if the repository or the
  // revision is missing, (mismatch) if it is gated or the token is refused.
  Listing listing();
  // Asks for the size and hash of a file that a mirror's listing leaves out.
  RemoteFile describe(const std::string& commit, const std::string& path);
  // Reads a file from byte `from` on. Returns the status: 200 or 206, or 416 if the file is not that long.
  // Throws like listing().
  int read(const std::string& commit, const std::string& path, std::int64_t from, const HttpSink& sink);

  // Sends a request and follows redirects; for HEAD a redirect that describes the file is the answer. The
  // sink takes the body of an answer that is no refusal. Returns the answer if its status is below 400 or
  // among `expected`, with the hub's words in the field x-error-message. Throws like listing().
  HttpHead send(HttpRequest, const HttpSink&, const std::vector<int>& expected = {});
  // Returns the body of the answer to a request. Throws like listing().
  std::string ask(HttpRequest);

  const Access& access() const { return access_; }
  const HubName& name() const { return name_; }

 private:
  std::string api_url(HubKind kind) const;
  std::string file_url(const std::string& commit, const std::string& path) const;
  bool exists_as(HubKind kind);

  const Access& access_;
  HubName name_;
  HttpClient& http_;
};

}  // namespace ft::hub
