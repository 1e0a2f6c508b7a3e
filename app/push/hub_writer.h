// The requests that change a repository of the hub: create it, make a branch, commit files. Answers are not
// trusted. All functions throw as Client::send() does, and UserError (mismatch) if the token may not write.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "app/hub/client.h"
#include "app/push/local_file.h"

namespace ft::hub {

// A repository before a push.
struct RepositoryState {
  bool exists = false;
  bool is_private = false;
  bool has_revision = false;
};

// A file on its way into a commit.
struct Addition {
  const LocalFile* file = nullptr;
  bool large = false;    // goes to the store of large files, and is named by its SHA-256
  bool ignored = false;  // by the repository's .gitignore
  std::string there{};   // hash of the file that the repository has at this path; empty: none
  std::string hash{};    // SHA-256 of a large file, git's SHA-1 of another one; empty: unknown yet
  bool is_there() const { return !hash.empty() && hash == there; }
};

// The hub's instructions for one large file: an address, or one for each part.
struct UploadOrder {
  std::string url;
  std::vector<std::string> fields;  // lines for the head of the request
  std::int64_t part_bytes = 0;      // 0: in one piece
  std::vector<std::string> parts;   // addresses; `url` is then told when all are sent
  std::string verify;               // address; empty: none
};

struct Committed {
  std::string commit;        // 40 hexadecimal digits
  std::string pull_request;  // its address; empty: none
};

class HubWriter {
 public:
  // `client` must outlive the writer. `create_pr`: files are proposed in a pull request.
  HubWriter(Client& client, bool create_pr) : client_(client), create_pr_(create_pr) {}

  RepositoryState look();
  // Does nothing if the repository or the branch exists.
  void create(bool is_private);
  void create_branch();
  // Asks how each file is to be sent; sets all but `hash`.
  void ask_modes(std::vector<Addition>& additions);
  // Returns the orders for large files, in the same order; empty for those that the hub has.
  std::vector<std::optional<UploadOrder>> order(const std::vector<const Addition*>& additions);
  // Tells the hub that all parts of a file are sent. `etags` are the store's answers.
  void complete(const UploadOrder&, const std::string& hash, const std::vector<std::string>& etags);
  // Asks the hub to compare the size and hash of a file that was sent.
  void verify(const UploadOrder&, const std::string& hash, std::int64_t size);
  // Adds the files in one commit. Large files must have been sent.
  Committed commit(const std::vector<Addition>& additions, const std::string& message);

  Client& client() { return client_; }

 private:
  std::string api(const std::string& rest) const;
  std::string revision_url(const std::string& what) const;
  std::string post(const std::string& url, std::string body, const std::string& type,
                   const std::vector<int>& expected = {}, int* status = nullptr);

  Client& client_;
  bool create_pr_;
};

}  // namespace ft::hub
