#include "app/hub/client.h"

#include <algorithm>
#include <utility>

#include "app/hub/refusal.h"
#include "engine/core/error.h"
#include "engine/files/json.h"

namespace ft::hub {
namespace {

constexpr int kMostRedirects = 10;
constexpr std::size_t kMostIgnored = std::size_t{1} << 20;  // bytes of a body that is not needed

// Returns a sink that appends bytes to `text` (null: ignores them), and throws UserError (input) if there are
// more than `most`.
HttpSink limited(const std::string& url, std::size_t most, std::string* text = nullptr) {
  return [=, count = std::size_t{0}](const HttpHead&, std::string_view part) mutable {
    count += part.size();
    if (count > most) throw UserError(Exit::input, str(url, ": the answer is larger than ", most, " bytes"));
    if (text) text->append(part);
  };
}

bool is_redirect(int status) {
  return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

// Puts the message of a refusal's body, such as {"error": "..."}, into the head unless that has one.
void explain(HttpHead& reply, const std::string& body) {
  std::string& message = reply.fields["x-error-message"];
  if (!message.empty()) return;
  try {
    message = JsonObject::parse(body, {"the answer"}).text("error");
  } catch (const UserError&) {  // a page for browsers
  }
}

// Returns the next address of a redirect.
std::string next_url(const std::string& at, const HttpHead& reply) {
  const std::string& location = reply.field("location");
  const std::string next = location.empty() ? "" : resolved_url(at, location);
  if (!next.starts_with("https://") && !next.starts_with("http://"))
    throw UserError(Exit::input, str(origin_of(at), ": redirects to no address"));
  if (at.starts_with("https://") && !next.starts_with("https://"))
    throw UserError(Exit::input,
                    str(origin_of(at), ": redirects to ", origin_of(next), ", which is not encrypted"));
  return next;
}

std::int64_t size_in(const HttpHead& reply) {
  constexpr std::size_t kMostDigits = 16;
  const std::string& linked = reply.field("x-linked-size");
  const std::string& size = linked.empty() ? reply.field("content-length") : linked;
  if (size.empty() || size.size() > kMostDigits || size.find_first_not_of("0123456789") != size.npos)
    return -1;
  return std::stoll(size);
}

}  // namespace

Client::Client(const Access& access, HubName name, HttpClient& http)
    : access_(access), name_(std::move(name)), http_(http) {}

std::string Client::api_url(HubKind kind) const {
  return str(access_.endpoint, kind == HubKind::dataset ? "/api/datasets/" : "/api/models/", name_.id,
             "/revision/", percent_encoded(name_.revision), "?blobs=true");
}

std::string Client::file_url(const std::string& commit, const std::string& path) const {
  return str(access_.page(name_.kind == HubKind::dataset, name_.id), "/resolve/", commit, "/",
             percent_encoded(path, "/"));
}

HttpHead Client::send(HttpRequest request, const HttpSink& sink, const std::vector<int>& expected) {
  const std::string home = origin_of(access_.endpoint);
  const bool reads = request.method == HttpMethod::get || request.method == HttpMethod::head;
  for (int hop = 0; hop <= kMostRedirects; ++hop) {
    const std::string at = origin_of(request.url);
    request.token = at == home ? access_.token : "";
    std::string refused;
    const HttpSink explained = limited(at, kMostIgnored, &refused);
    HttpHead reply;
    try {
      reply = http_.send(request, [&](const HttpHead& head, std::string_view part) {
        (head.status >= 200 && head.status < 300 ? sink : explained)(head, part);
      });
    } catch (const ConnectionFailed& e) {
      throw Trouble(str(at, ": ", e.what()));
    }
    if (reply.status >= 400) explain(reply, refused);
    const bool describes = request.method == HttpMethod::head && !reply.field("x-linked-etag").empty();
    if (is_redirect(reply.status) && !describes) {
      if (!reads && reply.status != 307 && reply.status != 308)
        throw UserError(Exit::input,
                        str(at, ": redirects a request that changes something (", reply.status, ")"));
      request.url = next_url(request.url, reply);
    } else if (reply.status < 400 || (reply.status == 416 && request.from > 0) ||
               std::find(expected.begin(), expected.end(), reply.status) != expected.end()) {
      return reply;
    } else {
      refuse(reply, at, at == home, access_, name_);
    }
  }
  throw UserError(Exit::input, str(home, ": more than ", kMostRedirects, " redirects"));
}

std::string Client::ask(HttpRequest request) {
  std::string text;
  const HttpSink sink = limited(request.url, kMostListing, &text);
  send(std::move(request), sink);
  return text;
}

Listing Client::listing() {
  std::string text;
  const std::string url = api_url(name_.kind);
  try {
    text = ask({.url = url});
  } catch (const RepositoryMissing& missing) {
    const bool model = name_.kind == HubKind::model;
    if (!exists_as(model ? HubKind::dataset : HubKind::model)) throw;
    throw UserError(
        Exit::input,
        str(name_.id, model ? " is a data set: ft pull --dataset " : " is a model: ft pull ", name_.id));
  }
  Listing listing = parse_listing(text, url);
  if (is_sha1(name_.revision) && listing.commit != name_.revision)
    throw UserError(Exit::input, str(url, ": lists another commit, ", listing.commit));
  return listing;
}

// Returns true if the hub has the id as this kind.
bool Client::exists_as(HubKind kind) {
  try {
    send({.url = api_url(kind)}, limited(access_.endpoint, kMostListing));
    return true;
  } catch (const UserError&) {
    return false;
  }
}

RemoteFile Client::describe(const std::string& commit, const std::string& path) {
  const std::string url = file_url(commit, path);
  const HttpHead reply = send({.method = HttpMethod::head, .url = url}, limited(url, kMostIgnored));
  const std::string& linked = reply.field("x-linked-etag");
  RemoteFile file{path, size_in(reply), name_of_etag(linked.empty() ? reply.field("etag") : linked)};
  if (file.size < 0 || file.size > kMostBytes || file.hash.empty())
    throw UserError(Exit::input, str(url,
                                     ": the server does not tell the file's size and ETag, so it is no hub; "
                                     "check HF_ENDPOINT and the proxy"));
  return file;
}

int Client::read(const std::string& commit, const std::string& path, std::int64_t from,
                 const HttpSink& sink) {
  return send({.url = file_url(commit, path), .from = from}, sink).status;
}

}  // namespace ft::hub
