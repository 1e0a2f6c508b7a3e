#include "tests/app/hub/hub_server.h"

#include <httplib.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>

#include "engine/files/hash.h"
#include "engine/files/json.h"

namespace ft::test {
namespace {

constexpr std::size_t kPiece = 16 << 10;

// Sends an answer's body in pieces.
bool send_pieces(const Answer& answer, std::size_t offset, std::size_t length, httplib::DataSink& sink) {
  for (std::size_t sent = 0; sent < length;) {
    if (answer.pause > 0) std::this_thread::sleep_for(std::chrono::milliseconds(answer.pause));
    std::size_t piece = std::min(kPiece, length - sent);
    if (answer.cut >= 0) piece = std::min(piece, static_cast<std::size_t>(answer.cut) - sent);
    if (piece > 0 && !sink.write(answer.body.data() + offset + sent, piece)) return false;
    sent += piece;
    if (answer.cut >= 0 && sent >= static_cast<std::size_t>(answer.cut)) return false;
  }
  return true;
}

void give(const httplib::Request& request, httplib::Response& response, const Answer& answer) {
  response.status = answer.status;
  for (const auto& [name, value] : answer.fields) response.set_header(name.c_str(), value);
  if (answer.body.empty()) return;
  if (!answer.ranges) const_cast<httplib::Request&>(request).ranges.clear();
  if (!request.ranges.empty() && answer.status == 200) response.status = -1;  // the library's: 206
  if (answer.chunked) {
    response.set_chunked_content_provider("application/octet-stream",
                                          [answer](std::size_t, httplib::DataSink& sink) {
                                            if (!send_pieces(answer, 0, answer.body.size(), sink))
                                              return false;
                                            sink.done();
                                            return true;
                                          });
    return;
  }
  response.set_content_provider(answer.body.size(), "application/octet-stream",
                                [answer](std::size_t offset, std::size_t length, httplib::DataSink& sink) {
                                  return send_pieces(answer, offset, length, sink);
                                });
}

Json entry_of(const std::string& path, const ServedFile& file) {
  Json entry{{"rfilename", path}, {"size", file.contents.size()}, {"blobId", file.hash()}};
  if (file.large) {
    entry["blobId"] = std::string(40, 'b');  // of the pointer that git has in its place
    entry["lfs"] = {{"sha256", file.hash()}, {"size", file.contents.size()}, {"pointerSize", 130}};
  }
  return entry;
}

}  // namespace

struct HubServer::Parts {
  httplib::Server hub, files;
  int hub_port = 0, files_port = 0;
  std::thread hub_thread, files_thread;
  mutable std::mutex mutex;
  std::mutex state;  // of the repositories and the store
  std::vector<Asked> asked;
  std::atomic<int> now = 0, most = 0;
};

std::string ServedFile::hash() const {
  if (large) return sha256(contents);
  Hasher git(Hasher::Kind::sha1);
  git.add("blob " + std::to_string(contents.size()) + std::string(1, '\0'));
  git.add(contents);
  return git.hex();
}

Answer refusal(int status, const std::string& code, const std::string& message) {
  return {.status = status, .fields = {{"X-Error-Code", code}, {"X-Error-Message", message}}};
}

HubServer::HubServer() : parts_(std::make_unique<Parts>()) {
  const auto handler = [this](bool hub) {
    return [this, hub](const httplib::Request& request, httplib::Response& response) {
      std::string path = request.path;
      if (const std::size_t scheme = path.find("://"); scheme != path.npos)  // a proxy is asked so
        path = path.substr(path.find('/', scheme + 3));
      const Asked asked{hub,
                        request.method,
                        path,
                        request.get_header_value("Authorization"),
                        request.get_header_value("Range"),
                        request.body,
                        request.target};
      {
        const std::lock_guard lock(parts_->mutex);
        parts_->asked.push_back(asked);
      }
      Answer given = [&] {
        const std::lock_guard lock(parts_->state);
        return answer(asked);
      }();
      if (alter) alter(asked, given);
      give(request, response, given);
    };
  };
  const auto count = [this](int change) {
    const int now = parts_->now += change;
    for (int most = parts_->most; most < now && !parts_->most.compare_exchange_weak(most, now);) {
    }
  };
  parts_->files.set_pre_routing_handler([count](const httplib::Request&, httplib::Response&) {
    count(1);
    return httplib::Server::HandlerResponse::Unhandled;
  });
  parts_->files.set_logger([count](const httplib::Request&, const httplib::Response&) { count(-1); });
  for (auto* server : {&parts_->hub, &parts_->files}) {
    server->new_task_queue = [] { return new httplib::ThreadPool(32); };
    server->set_tcp_nodelay(true);
    server->Get(".*", handler(server == &parts_->hub));
    server->Post(".*", handler(server == &parts_->hub));
    server->Put(".*", handler(server == &parts_->hub));
  }
  parts_->hub_port = parts_->hub.bind_to_any_port("127.0.0.1");
  parts_->files_port = parts_->files.bind_to_any_port("127.0.0.1");
  parts_->hub_thread = std::thread([this] { parts_->hub.listen_after_bind(); });
  parts_->files_thread = std::thread([this] { parts_->files.listen_after_bind(); });
  while (!parts_->hub.is_running() || !parts_->files.is_running()) std::this_thread::yield();
}

HubServer::~HubServer() {
  parts_->hub.stop();
  parts_->files.stop();
  parts_->hub_thread.join();
  parts_->files_thread.join();
}

std::string HubServer::endpoint() const { return "http://127.0.0.1:" + std::to_string(parts_->hub_port); }
std::string HubServer::files_origin() const {
  return "http://127.0.0.1:" + std::to_string(parts_->files_port);
}
int HubServer::most_at_once() const { return parts_->most; }

std::vector<Asked> HubServer::asked() const {
  const std::lock_guard lock(parts_->mutex);
  return parts_->asked;
}

std::vector<Asked> HubServer::asked_for(const std::string& end) const {
  std::vector<Asked> all = asked();
  std::erase_if(all, [&](const Asked& a) { return !a.path.ends_with(end); });
  return all;
}

Answer HubServer::answer(const Asked& asked) {
  if (!asked.hub && asked.method == "PUT") return store_answer(asked);
  if (!asked.hub) {  // "/HASH"
    for (const auto& [id, repository] : repositories)
      for (const auto& [path, file] : repository.files)
        if (file.large && asked.path == "/" + file.hash())
          return {.fields = {{"ETag", "\"another-etag\""}}, .body = file.contents};
    return refusal(403, "");
  }
  if (!token.empty() && asked.authorization.empty())
    return refusal(401, "RepoNotFound", "Invalid username or password.");
  if (!token.empty() && asked.authorization != "Bearer " + token)
    return refusal(401, "", "Invalid credentials in Authorization header");
  if (asked.method == "POST") return write_answer(asked);
  return asked.path.starts_with("/api/") ? api_answer(asked.path) : file_answer(asked);
}

// Answers "/api/models/org/name/revision/REVISION", and without the revision.
Answer HubServer::api_answer(const std::string& path) const {
  constexpr std::size_t kApi = 5;
  const std::size_t at = path.find("/revision/");
  const auto found = repositories.find(path.substr(kApi, at == path.npos ? at : at - kApi));
  if (found == repositories.end()) return refusal(401, "RepoNotFound", "Repository not found");
  if (at == path.npos) return {.body = Json{{"private", found->second.is_private}}.dump()};
  const std::string revision = path.substr(at + std::string("/revision/").size());
  std::string commit;
  for (const auto& [name, sha] : found->second.revisions)
    if (revision == name || revision == sha) commit = sha;
  if (commit.empty()) return refusal(404, "RevisionNotFound", "Invalid rev id: " + revision);
  Json json{{"sha", commit}, {"siblings", Json::array()}};
  for (const auto& [name, file] : found->second.files) json["siblings"].push_back(entry_of(name, file));
  return {.body = json.dump()};
}

// Answers "/org/name/resolve/COMMIT/PATH" and "/datasets/org/name/resolve/COMMIT/PATH".
Answer HubServer::file_answer(const Asked& asked) const {
  const std::size_t at = asked.path.find("/resolve/");
  std::string id = asked.path.substr(1, at - 1);
  if (!id.starts_with("datasets/")) id = "models/" + id;
  const auto found = repositories.find(id);
  if (at == asked.path.npos || found == repositories.end()) return refusal(404, "RepoNotFound");
  const std::string commit = asked.path.substr(at + 9, 40), path = asked.path.substr(at + 9 + 41);
  const auto file = found->second.files.find(path);
  if (file == found->second.files.end()) return refusal(404, "EntryNotFound", "Entry not found");
  const ServedFile& served = file->second;
  Answer answer{.fields = {{"X-Repo-Commit", commit}, {"ETag", "\"" + served.hash() + "\""}}};
  if (served.large) {
    answer.status = 302;
    answer.fields["X-Linked-Etag"] = "\"" + served.hash() + "\"";
    answer.fields["X-Linked-Size"] = std::to_string(served.contents.size());
    answer.fields["Location"] = files_origin() + "/" + served.hash();
  } else {
    answer.body = served.contents;
  }
  return answer;
}

}  // namespace ft::test
