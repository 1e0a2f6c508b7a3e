#include "app/push/hub_writer.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "app/hub/refusal.h"
#include "engine/core/base64.h"
#include "engine/files/json.h"

namespace ft::hub {
namespace {

constexpr const char* kJson = "application/json";
constexpr const char* kLines = "application/x-ndjson";
constexpr const char* kLargeFiles = "application/vnd.git-lfs+json";
constexpr std::size_t kAtOnce = 256;          // files in one question
constexpr std::int64_t kSample = 512;         // bytes by which the hub tells text from other files
constexpr std::int64_t kMostParts = 10'000;   // of one file
constexpr std::int64_t kMostSmall = 1 << 30;  // bytes of all files that go into the commit itself

JsonObject answer_of(const std::string& text, const std::string& url) {
  JsonRules rules;
  rules.max_bytes = kMostListing;
  rules.unique_keys = false;
  return JsonObject::parse(text, {url}, rules);
}

std::string line_of(const Json& json) { return json_text(json, -1) + "\n"; }

bool is_digits(const std::string& text) {
  constexpr std::size_t kMost = 9;
  return !text.empty() && text.size() <= kMost && text.find_first_not_of("0123456789") == text.npos;
}

// Returns the address under a key of an order. Throws UserError (input) if it is none, or leaves encryption.
std::string address_of(const JsonObject& order, const std::string& key, const Access& access) {
  constexpr std::string_view kHub = "https://huggingface.co/";
  std::string url = order.text(key);
  if (url.starts_with(kHub)) url = access.endpoint + "/" + url.substr(kHub.size());  // a mirror's answer
  const bool http = url.starts_with("http://") && access.endpoint.starts_with("http://");
  if (!http && !url.starts_with("https://")) order.refuse(key, "an https address");
  return url;
}

// Reads the parts' addresses from the fields that an order has besides the lines of its head.
void read_parts(UploadOrder& order, const JsonObject& header, std::int64_t size, const Access& access) {
  std::map<std::int64_t, std::string> parts;  // by number
  for (const std::string& key : header.keys())
    if (is_digits(key)) parts[std::stoll(key)] = address_of(header, key, access);
  const std::string given = header.is_text("chunk_size") ? header.text("chunk_size") : "";
  order.part_bytes = is_digits(given) ? std::stoll(given) : header.integer("chunk_size", 1, kMostBytes);
  const std::int64_t wanted = order.part_bytes > 0 ? (size + order.part_bytes - 1) / order.part_bytes : 0;
  if (wanted < 1 || wanted > kMostParts || std::ssize(parts) != wanted)
    header.refuse("chunk_size", str("the size of ", parts.size(), " parts of ", size, " bytes"));
  for (auto& [number, url] : parts) order.parts.push_back(std::move(url));
}

// Reads the lines for the head of the request that sends a file.
void read_fields(UploadOrder& order, const JsonObject& header) {
  for (const std::string& key : header.keys()) {
    const std::string value = header.is_text(key) ? header.text(key) : "";
    const auto plain = [](char c) { return c >= ' ' && c < 0x7f; };
    if (value.empty() || !std::all_of(value.begin(), value.end(), plain) ||
        key.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-0123456789") != key.npos)
      header.refuse(key, "a field of HTTP");
    order.fields.push_back(key + ": " + value);
  }
}

UploadOrder read_order(const JsonObject& actions, std::int64_t size, const Access& access) {
  const JsonObject upload = actions.object("upload");
  UploadOrder order{.url = address_of(upload, "href", access)};
  if (upload.has("header")) {
    const JsonObject header = upload.object("header");
    if (header.has("chunk_size"))
      read_parts(order, header, size, access);
    else
      read_fields(order, header);
  }
  if (actions.has("verify")) order.verify = address_of(actions.object("verify"), "href", access);
  return order;
}

// Returns the lines of a commit: its message, and each file or its hash.
std::string commit_lines(const std::vector<Addition>& additions, const std::string& message) {
  std::string lines = line_of({{"key", "header"}, {"value", {{"summary", message}, {"description", ""}}}});
  std::int64_t small = 0;
  for (const Addition& addition : additions) {
    const LocalFile& file = *addition.file;
    if (addition.large) {
      lines +=
          line_of({{"key", "lfsFile"},
                   {"value",
                    {{"path", file.path}, {"algo", "sha256"}, {"oid", addition.hash}, {"size", file.size}}}});
      continue;
    }
    if ((small += file.size) > kMostSmall)
      throw UserError(Exit::input,
                      "the small files have more than 1 GiB; send them in several pushes (--include)");
    lines += line_of({{"key", "file"},
                      {"value",
                       {{"content", base64(beginning_of(file, file.size))},
                        {"path", file.path},
                        {"encoding", "base64"}}}});
  }
  return lines;
}

}  // namespace

std::string HubWriter::api(const std::string& rest) const {
  return client_.access().endpoint + "/api/" + rest;
}

std::string HubWriter::revision_url(const std::string& what) const {
  const HubName& name = client_.name();
  return api(str(name.kind == HubKind::dataset ? "datasets/" : "models/", name.id, "/", what, "/",
                 percent_encoded(name.revision), create_pr_ ? "?create_pr=1" : ""));
}

// Sends a body and returns the answer's. A token without the right to write is named.
std::string HubWriter::post(const std::string& url, std::string body, const std::string& type,
                            const std::vector<int>& expected, int* status) {
  std::vector<int> all = expected;
  all.push_back(403);
  std::string text;
  const HttpHead reply = client_.send(
      {.method = HttpMethod::post,
       .url = url,
       .fields = {"Content-Type: " + type, "Accept: " + (type == kLargeFiles ? type : std::string(kJson))},
       .body = text_body(std::move(body))},
      [&](const HttpHead&, std::string_view part) {
        if (text.size() + part.size() > kMostListing)
          throw UserError(Exit::input, url + ": the answer is too large");
        text.append(part);
      },
      all);
  if (reply.status == 403) {
    const Access& access = client_.access();
    const std::string& message = reply.field("x-error-message");
    throw UserError(Exit::mismatch,
                    str(client_.name().id, ": the token in ", printable(access.token_source),
                        " may not write here", message.empty() ? "" : " (" + printable(message) + ")",
                        "; make one with write access at ", access.endpoint, "/settings/tokens",
                        create_pr_ ? "" : ", or propose the files with --create-pr"));
  }
  if (status) *status = reply.status;
  return text;
}

RepositoryState HubWriter::look() {
  const HubName& name = client_.name();
  const std::string url = api(str(name.kind == HubKind::dataset ? "datasets/" : "models/", name.id));
  RepositoryState state;
  try {
    state.is_private = answer_of(client_.ask({.url = url}), url).boolean_or("private", false);
    state.exists = true;
  } catch (const RepositoryMissing&) {
    return state;
  }
  const HttpHead reply = client_.send({.url = url + "/revision/" + percent_encoded(name.revision)},
                                      [](const HttpHead&, std::string_view) {}, {404});
  state.has_revision = reply.status != 404;
  return state;
}

void HubWriter::create(bool is_private) {
  const HubName& name = client_.name();
  const std::size_t slash = name.id.find('/');
  Json body{{"name", name.id.substr(slash + 1)},
            {"organization", name.id.substr(0, slash)},
            {"type", name.kind == HubKind::dataset ? "dataset" : "model"}};
  if (is_private) body["private"] = true;
  int status = 0;
  post(api("repos/create"), json_text(body, -1), kJson, {409}, &status);
  // 409: another process has just made it, or makes one; then it may not be there yet.
  if (status == 409 && !look().exists)
    throw Trouble(name.id + ": the hub makes another repository at the moment (409)");
}

void HubWriter::create_branch() {
  const HubName& name = client_.name();
  post(api(str(name.kind == HubKind::dataset ? "datasets/" : "models/", name.id, "/branch/",
               percent_encoded(name.revision))),
       "{}", kJson, {409});
}

void HubWriter::ask_modes(std::vector<Addition>& additions) {
  const std::string url = revision_url("preupload");
  for (std::size_t first = 0; first < additions.size(); first += kAtOnce) {
    const std::size_t end = std::min(first + kAtOnce, additions.size());
    Json files = Json::array();
    std::map<std::string, Addition*> asked;
    for (std::size_t i = first; i < end; ++i) {
      const LocalFile& file = *additions[i].file;
      files.push_back(
          {{"path", file.path}, {"sample", base64(beginning_of(file, kSample))}, {"size", file.size}});
      asked[file.path] = &additions[i];
    }
    const JsonObject answer = answer_of(post(url, json_text({{"files", files}}, -1), kJson), url);
    for (const JsonObject& entry : answer.objects("files")) {
      const auto found = asked.find(entry.text("path"));
      if (found == asked.end()) entry.refuse("path", "a path that was asked for");
      const std::string mode = entry.text("uploadMode");
      if (mode != "lfs" && mode != "regular") entry.refuse("uploadMode", "lfs or regular");
      Addition& addition = *found->second;
      addition.large = mode == "lfs" && addition.file->size > 0;  // the store takes no empty files
      addition.ignored = entry.boolean_or("shouldIgnore", false);
      addition.there = entry.text_or("oid", "");
      asked.erase(found);
    }
    if (!asked.empty()) answer.refuse("files", "a list with an entry for " + printable(asked.begin()->first));
  }
}

std::vector<std::optional<UploadOrder>> HubWriter::order(const std::vector<const Addition*>& additions) {
  const HubName& name = client_.name();
  const std::string url =
      client_.access().page(name.kind == HubKind::dataset, name.id) + ".git/info/lfs/objects/batch";
  std::vector<std::optional<UploadOrder>> orders;
  for (std::size_t first = 0; first < additions.size(); first += kAtOnce) {
    const std::size_t end = std::min(first + kAtOnce, additions.size());
    Json objects = Json::array();
    std::map<std::string, std::int64_t> sizes;  // by hash
    for (std::size_t i = first; i < end; ++i) {
      objects.push_back({{"oid", additions[i]->hash}, {"size", additions[i]->file->size}});
      sizes[additions[i]->hash] = additions[i]->file->size;
    }
    const Json body{{"operation", "upload"},
                    {"transfers", {"basic", "multipart"}},
                    {"objects", objects},
                    {"ref", {{"name", name.revision}}},
                    {"hash_algo", "sha256"}};
    const JsonObject answer = answer_of(post(url, json_text(body, -1), kLargeFiles), url);
    std::map<std::string, std::optional<UploadOrder>> by_hash;
    for (const JsonObject& object : answer.objects("objects")) {
      if (object.has("error"))
        throw UserError(Exit::input,
                        str(name.id, ": the hub refuses a file: ",
                            printable(object.object("error").text_or("message", "it does not say why"))));
      const std::string hash = object.text("oid");
      const auto size = sizes.find(hash);
      if (size == sizes.end()) object.refuse("oid", "a hash that was asked for");
      by_hash[hash] =
          object.has("actions") && object.object("actions").has("upload")
              ? std::optional(read_order(object.object("actions"), size->second, client_.access()))
              : std::nullopt;
    }
    for (std::size_t i = first; i < end; ++i) {
      const auto found = by_hash.find(additions[i]->hash);
      if (found == by_hash.end()) answer.refuse("objects", "a list with an entry for " + additions[i]->hash);
      orders.push_back(found->second);
    }
  }
  return orders;
}

void HubWriter::complete(const UploadOrder& order, const std::string& hash,
                         const std::vector<std::string>& etags) {
  Json parts = Json::array();
  for (std::size_t i = 0; i < etags.size(); ++i) parts.push_back({{"partNumber", i + 1}, {"etag", etags[i]}});
  post(order.url, json_text({{"oid", hash}, {"parts", parts}}, -1), kLargeFiles);
}

void HubWriter::verify(const UploadOrder& order, const std::string& hash, std::int64_t size) {
  if (order.verify.empty()) return;
  post(order.verify, json_text({{"oid", hash}, {"size", size}}, -1), kJson);
}

Committed HubWriter::commit(const std::vector<Addition>& additions, const std::string& message) {
  const std::string url = revision_url("commit");
  int status = 0;
  const std::string text = post(url, commit_lines(additions, message), kLines, {409, 412}, &status);
  if (status == 409 || status == 412)
    throw Trouble(str(client_.name().id, ": somebody else commits at the same time (", status, ")"));
  const JsonObject answer = answer_of(text, url);
  Committed done{.commit = answer.text("commitOid"), .pull_request = answer.text_or("pullRequestUrl", "")};
  if (!is_sha1(done.commit)) answer.refuse("commitOid", "a commit of 40 hexadecimal digits");
  return done;
}

}  // namespace ft::hub
