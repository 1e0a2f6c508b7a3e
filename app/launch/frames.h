// Messages between ft launch and its node processes (app/node) over ssh's pipes: frames of a kind, a number
// and bytes.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ft {

enum class FrameKind : std::uint32_t {
  // to a node:
  start = 1,  // JSON: the command to run, and the token
  signal,     // number: a signal for all ranks
  alive,      // the launcher still runs
  look,       // ft doctor; JSON: folders, and the machines' names
  reach,      // ft doctor; JSON: addresses of the other machines
  // from a node:
  hello,      // JSON: the fingerprint of its ft
  listening,  // number: rank 0's port
  said,       // number: a rank; bytes of its output
  answered,   // bytes that rank 0 wrote to stdout
  ended,      // number: a rank; bytes: its status, as waitpid returns it
  found,      // JSON: the answer to `look`
  reached,    // JSON: the answer to `reach`
  fault,      // number: an exit code; bytes: the error
};

struct Frame {
  FrameKind kind{};
  std::int32_t number = 0;
  std::string bytes;
};

// Command of ft that runs a node process (app/node); only ft launch and ft doctor start it.
inline constexpr const char* kNodeCommand = "_node";

// First output of a node process. Output before it comes from the remote shell.
inline constexpr std::string_view kNodeBegins = "\nft node 1\n";

std::string encode(const Frame&);

// Collects bytes and returns complete frames.
class FrameReader {
 public:
  void add(std::string_view bytes) { buffer_ += bytes; }
  // Returns the next complete frame, if any. Throws UserError (mismatch) if the bytes are not a frame.
  std::optional<Frame> next();
  // Returns false until kNodeBegins arrives. Then returns true and puts the output that preceded it into
  // `before`.
  bool begun(std::string& before);

 private:
  std::string buffer_;
};

}  // namespace ft
