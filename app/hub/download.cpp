#include "app/hub/download.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "app/hub/partial_file.h"
#include "engine/core/error.h"
#include "engine/files/hash.h"

namespace ft::hub {
namespace {

// Returns the number that begins at text[at], of digits; empty if there is none, or it is too large.
std::optional<std::int64_t> number_at(const std::string& text, std::size_t at) {
  constexpr std::size_t kMostDigits = 16;
  std::int64_t n = 0;
  std::size_t digits = 0;
  for (; at < text.size() && text[at] >= '0' && text[at] <= '9'; ++at, ++digits)
    n = n * 10 + (text[at] - '0');
  return digits == 0 || digits > kMostDigits ? std::nullopt : std::optional(n);
}

// The download of one file: its part, and the hash of the part.
class Download {
 public:
  Download(const Fetching& f, const RemoteFile& file)
      : f_(f), file_(file), part_(f.repository.unfinished(file)), hash_(new_hash()) {
    if (part_.size() > file.size) part_.restart();
    part_.read([&](std::string_view bytes) {
      if (f_.stop && f_.stop()) throw Stopped();
      take(bytes);
    });
    resumed_ = part_.size() > 0;
  }

  void run() {
    while (!receive_all()) {
      restart();
      if (!std::exchange(resumed_, false))
        refuse(str("its contents have another hash than ", file_.hash, "; nothing of it is kept"));
      f_.progress.note(str(printable(file_.path), ": the part on disk was damaged; fetching it anew"));
    }
    if (!is_verifiable())
      f_.progress.note(
          str(printable(file_.path), ": the server tells no hash of it; only its size is checked"));
    part_.commit(f_.repository.blob(file_));
  }

 private:
  Hasher new_hash() const {
    if (!is_sha1(file_.hash)) return Hasher(Hasher::Kind::sha256);
    Hasher git(Hasher::Kind::sha1);
    git.add("blob " + std::to_string(file_.size) + std::string(1, '\0'));
    return git;
  }

  bool is_verifiable() const { return is_sha1(file_.hash) || is_sha256(file_.hash); }

  void take(std::string_view bytes) {
    hash_.add(bytes);
    f_.progress.there += static_cast<std::int64_t>(bytes.size());
  }

  void restart() {
    f_.progress.there -= part_.size();
    part_.restart();
    hash_ = new_hash();
  }

  // Receives the missing bytes. Returns false if the contents have the wrong hash.
  bool receive_all() {
    Patience patience(f_.pause, f_.stop);
    while (part_.size() < file_.size) {
      try {
        receive(patience);
      } catch (const Trouble& trouble) {
        if (!std::exchange(noted_, true))
          f_.progress.note(str(printable(file_.path), ": ", trouble.what(), "; trying again"));
        patience.wait(trouble);
      }
    }
    return !is_verifiable() || hash_.hex() == file_.hash;
  }

  // Makes one request. Throws Trouble if the connection ends early.
  void receive(Patience& patience) {
    bool begun = false;
    const int status = f_.client.read(
        f_.commit, file_.path, part_.size(), [&](const HttpHead& head, std::string_view bytes) {
          if (!std::exchange(begun, true)) begin(head);
          if (std::ssize(bytes) > file_.size - part_.size())
            refuse(str("the server sends more than its ", file_.size, " bytes"));
          part_.append(bytes);
          take(bytes);
          f_.progress.moved += std::ssize(bytes);
          if (part_.size() > farthest_) patience.progressed();
          farthest_ = std::max(farthest_, part_.size());
        });
    if (status == 416) return restart();
    if (part_.size() < file_.size)
      throw Trouble(str("the connection ended after ", part_.size(), " of ", file_.size, " bytes"));
  }

  // Checks the head of a response, and starts anew if the server sends all bytes where a part is there.
  void begin(const HttpHead& head) {
    constexpr std::string_view kUnit = "bytes ";
    const std::string& range = head.field("content-range");  // "bytes 100-199/200"
    const std::string& length = head.field("content-length");
    if (head.status == 206) {
      const std::size_t slash = range.find('/');
      const auto first = number_at(range, kUnit.size());
      if (!range.starts_with(kUnit) || first != part_.size())
        refuse(str("the server sends the range \"", printable(range), "\" and was asked for bytes from ",
                   part_.size(), " on"));
      const auto total = slash == range.npos ? std::nullopt : number_at(range, slash + 1);
      if (total && *total != file_.size) refuse_size(*total);
    } else {
      if (part_.size() > 0) restart();
      if (const auto total = number_at(length, 0); total && *total != file_.size) refuse_size(*total);
    }
  }

  [[noreturn]] void refuse_size(std::int64_t total) const {
    refuse(str("the server has ", total, " bytes of it, and its size is ", file_.size));
  }
  [[noreturn]] void refuse(const std::string& why) const {
    throw UserError(Exit::input, str(f_.client.name().id, ": ", printable(file_.path), ": ", why));
  }

  const Fetching& f_;
  const RemoteFile& file_;
  PartialFile part_;
  Hasher hash_;
  std::int64_t farthest_ = 0;  // largest size that the part has had; a server may begin anew again and again
  bool resumed_ = false;       // some bytes are from an earlier process
  bool noted_ = false;         // a trouble was shown
};

}  // namespace

void fetch(const Fetching& f, const RemoteFile& file) {
  const BlobLock lock(f.repository, file, f.stop, [&] {
    f.progress.note(str(printable(file.path), ": another process fetches it; waiting"));
  });
  if (f.repository.has(file))  // another process has fetched it meanwhile
    f.progress.there += file.size;
  else
    Download(f, file).run();
}

}  // namespace ft::hub
