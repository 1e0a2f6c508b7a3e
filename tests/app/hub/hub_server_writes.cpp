// The part of the hub that a push changes: repositories, branches, large files, commits.
#include <nlohmann/json.hpp>
#include <sstream>

#include "engine/files/hash.h"
#include "engine/files/json.h"
#include "tests/app/hub/hub_server.h"

namespace ft::test {
namespace {

// Returns the bytes of a text in Base64.
std::string from_base64(const std::string& text) {
  static const std::string kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string bytes;
  unsigned int bits = 0, count = 0;
  for (const char c : text) {
    if (c == '=') break;
    bits = bits << 6 | static_cast<unsigned int>(kDigits.find(c));
    if ((count += 6) >= 8) bytes += static_cast<char>(bits >> (count -= 8) & 255);
  }
  return bytes;
}

bool is_large(const std::string& path, std::int64_t size) {
  return path.ends_with(".safetensors") || path.ends_with(".gguf") || size > 1'000'000;
}

Answer json_answer(const Json& json, int status = 200) { return {.status = status, .body = json.dump()}; }

}  // namespace

// Answers a PUT of "/upload/HASH" or "/part/HASH/NUMBER" at the host of large files.
Answer HubServer::store_answer(const Asked& asked) {
  std::istringstream words(asked.path.substr(1));
  std::string what, hash, number;
  std::getline(words, what, '/');
  std::getline(words, hash, '/');
  std::getline(words, number, '/');
  if (what == "upload")
    store[hash] = asked.body;
  else
    pieces_[hash][std::stoi(number)] = asked.body;
  return {.fields = {{"ETag", "\"etag-" + number + "\""}}};
}

Answer HubServer::write_answer(const Asked& asked) {
  const std::string& path = asked.path;
  if (read_only) return refusal(403, "", "You don't have the rights");
  if (path == "/api/repos/create") return create_answer(asked);
  if (path.starts_with("/complete/") || path.starts_with("/verify/")) return upload_done_answer(asked);
  if (path.ends_with(".git/info/lfs/objects/batch")) return batch_answer(asked);
  for (auto& [id, repository] : repositories) {
    const std::string begin = "/api/" + id + "/";
    if (!path.starts_with(begin)) continue;
    const std::size_t slash = path.find('/', begin.size());
    const std::string what = path.substr(begin.size(), slash - begin.size()),
                      revision = path.substr(slash + 1);
    if (what == "branch") {
      if (repository.revisions.contains(revision)) return refusal(409, "", "Reference already exists");
      repository.revisions[revision] = repository.revisions["main"];
      return json_answer({{"ok", true}}, 201);
    }
    if (!repository.revisions.contains(revision)) return refusal(404, "RevisionNotFound", "Invalid rev id");
    if (what == "preupload") return preupload_answer(repository, asked);
    if (what == "commit") return commit_answer(id, revision, asked);
  }
  return refusal(404, "RepoNotFound", "Repository not found");
}

Answer HubServer::create_answer(const Asked& asked) {
  const Json body = Json::parse(asked.body);
  const std::string id = (body["type"] == "dataset" ? "datasets/" : "models/") +
                         body["organization"].get<std::string>() + "/" + body["name"].get<std::string>();
  if (repositories.contains(id)) return {.status = 409, .body = R"({"error": "You already created this"})"};
  repositories[id].is_private = body.value("private", false);
  return json_answer({{"url", endpoint() + "/" + id}});
}

Answer HubServer::preupload_answer(const ServedRepository& repository, const Asked& asked) const {
  Json files = Json::array();
  const Json body = Json::parse(asked.body);
  for (const Json& file : body["files"]) {
    const std::string path = file["path"];
    const auto there = repository.files.find(path);
    files.push_back({{"path", path},
                     {"uploadMode", is_large(path, file["size"]) ? "lfs" : "regular"},
                     {"shouldIgnore", path == "ignored.txt"},
                     {"oid", there == repository.files.end() ? Json() : Json(there->second.hash())}});
  }
  return json_answer({{"files", files}});
}

Answer HubServer::batch_answer(const Asked& asked) const {
  Json objects = Json::array();
  const Json body = Json::parse(asked.body);
  for (const Json& object : body["objects"]) {
    const std::string hash = object["oid"];
    const std::int64_t size = object["size"];
    Json answer{{"oid", hash}, {"size", size}};
    if (!store.contains(hash)) {
      Json header = Json::object();
      std::string href = files_origin() + "/upload/" + hash;
      if (part_bytes > 0 && size > part_bytes) {
        header["chunk_size"] = std::to_string(part_bytes);
        for (std::int64_t part = 1; (part - 1) * part_bytes < size; ++part)
          header[std::to_string(part)] = files_origin() + "/part/" + hash + "/" + std::to_string(part);
        href = endpoint() + "/complete/" + hash;
      }
      answer["actions"] = {{"upload", {{"href", href}, {"header", header}}},
                           {"verify", {{"href", endpoint() + "/verify/" + hash}}}};
    }
    objects.push_back(answer);
  }
  return json_answer({{"transfer", "basic"}, {"objects", objects}});
}

// Joins the parts of a file, or compares a file with its hash.
Answer HubServer::upload_done_answer(const Asked& asked) {
  const Json body = Json::parse(asked.body);
  const std::string hash = body["oid"];
  if (asked.path.starts_with("/complete/")) {
    std::string joined;
    for (const Json& part : body["parts"]) {
      const int number = part["partNumber"];
      if (part["etag"] != "\"etag-" + std::to_string(number) + "\"") return refusal(400, "", "wrong ETag");
      joined += pieces_[hash][number];
    }
    store[hash] = joined;
    return json_answer({{"ok", true}});
  }
  const bool right = sha256(store[hash]) == hash && std::ssize(store[hash]) == body["size"];
  if (!right) store.erase(hash);
  return right ? json_answer({{"ok", true}}) : refusal(422, "", "the file has another hash");
}

// Takes the lines of a commit.
Answer HubServer::commit_answer(const std::string& id, const std::string& revision, const Asked& asked) {
  ServedCommit commit{.repository = id, .revision = revision};
  commit.pull_request = asked.target.ends_with("?create_pr=1");
  ServedRepository changed = repositories[id];
  std::istringstream lines(asked.body);
  for (std::string line; std::getline(lines, line);) {
    const Json json = Json::parse(line), &value = json["value"];
    if (json["key"] == "header") {
      commit.message = value["summary"];
      continue;
    }
    const std::string path = value["path"];
    commit.paths.push_back(path);
    if (json["key"] == "file") {
      changed.files[path] = {from_base64(value["content"])};
    } else if (store.contains(value["oid"].get<std::string>())) {
      changed.files[path] = {store[value["oid"].get<std::string>()], true};
    } else {
      return refusal(400, "", "the large file is not there");
    }
  }
  commits.push_back(commit);
  const std::string sha(40, static_cast<char>('0' + commits.size() % 10));
  if (commit.pull_request)
    return json_answer({{"commitOid", sha}, {"pullRequestUrl", endpoint() + "/" + id + "/discussions/1"}});
  changed.revisions[revision] = sha;
  repositories[id] = changed;
  return json_answer({{"commitOid", sha}, {"commitUrl", endpoint() + "/" + id + "/commit/" + sha}});
}

}  // namespace ft::test
