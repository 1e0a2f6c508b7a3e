// A server that behaves as the hub does, with a second host for large files: file lists, commits, ETags,
// ranges, redirects, tokens, and what a push changes. A test may alter each answer.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace ft::test {

// A request that arrived.
struct Asked {
  bool hub = true;  // false: at the host of large files
  std::string method, path, authorization, range, body;
  std::string target;  // the path with its question
};

struct Answer {
  int status = 200;
  std::map<std::string, std::string> fields;
  std::string body;
  std::int64_t cut = -1;  // closes the connection after so many bytes of the body; -1: does not
  bool ranges = true;     // false: sends all bytes whatever range is asked for
  bool chunked = false;   // does not tell the length
  int pause = 0;          // milliseconds before each piece of 16 KiB
};

struct ServedFile {
  std::string contents;
  bool large = false;  // lies at the other host, and is named by its SHA-256

  std::string hash() const;
};

struct ServedRepository {
  std::map<std::string, std::string> revisions{{"main", std::string(40, 'a')}};  // commits by branch or tag
  std::map<std::string, ServedFile> files;
  bool is_private = false;
};

struct ServedCommit {
  std::string repository, revision, message;
  std::vector<std::string> paths;
  bool pull_request = false;
};

class HubServer {
 public:
  HubServer();
  ~HubServer();
  HubServer(const HubServer&) = delete;
  HubServer& operator=(const HubServer&) = delete;

  std::string endpoint() const;  // http://127.0.0.1:PORT
  std::string files_origin() const;
  std::vector<Asked> asked() const;
  // Returns the requests whose paths end so.
  std::vector<Asked> asked_for(const std::string& end) const;
  int most_at_once() const;  // answers at the host of large files

  // Set these before the first request.
  std::map<std::string, ServedRepository> repositories;  // "models/org/name", "datasets/org/name"
  std::string token;                                     // needed for everything; empty: none is
  std::function<void(const Asked&, Answer&)> alter;
  bool read_only = false;       // the token may not write
  std::int64_t part_bytes = 0;  // larger files are sent in such parts; 0: none are

  // Changed by requests. Read these when none is under way.
  std::map<std::string, std::string> store;  // large files, by SHA-256
  std::vector<ServedCommit> commits;

 private:
  struct Parts;
  Answer answer(const Asked&);
  Answer store_answer(const Asked&);
  Answer write_answer(const Asked&);
  Answer create_answer(const Asked&);
  Answer preupload_answer(const ServedRepository&, const Asked&) const;
  Answer batch_answer(const Asked&) const;
  Answer upload_done_answer(const Asked&);
  Answer commit_answer(const std::string& id, const std::string& revision, const Asked&);
  Answer api_answer(const std::string& path) const;
  Answer file_answer(const Asked&) const;
  std::map<std::string, std::map<int, std::string>> pieces_;  // parts of large files, by SHA-256 and number
  std::unique_ptr<Parts> parts_;
};

// Returns the names of the cases' faults as the hub sends them: a status with X-Error-Code and
// X-Error-Message.
Answer refusal(int status, const std::string& code, const std::string& message = "");

}  // namespace ft::test
