// What ft launch and its node processes (app/node) say to each other over the pipes of ssh: frames of a kind,
// a number and some bytes.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ft {

enum class FrameKind : std::uint32_t {
  // to a node
  start = 1,  // JSON: what to run, and the token
  signal,     // number: for all ranks
  alive,      // the launcher is
  look,       // ft doctor; JSON: folders, and how the machines are called
  reach,      // ft doctor; JSON: the others, and where they listen
  // from a node
  hello,      // JSON: which ft it is
  listening,  // number: the port at which rank 0 listens
  said,       // number: a rank; bytes of its output
  answered,   // bytes that rank 0 wrote to stdout
  ended,      // number: a rank; its status, as waitpid gives it
  found,      // the answer to look; JSON
  reached,    // the answer to reach; JSON
  fault,      // number: an exit code; what it could not do
};

struct Frame {
  FrameKind kind{};
  std::int32_t number = 0;
  std::string bytes;
};

// The command of ft that is a node process (app/node); only ft launch and ft doctor start it.
inline constexpr const char* kNodeCommand = "_node";

// What a node process writes first. Whatever comes before it is the remote shell's.
inline constexpr std::string_view kNodeBegins = "\nft node 1\n";

std::string encode(const Frame&);

// Takes bytes as they come and gives whole frames.
class FrameReader {
 public:
  void add(std::string_view bytes) { buffer_ += bytes; }
  // UserError(Exit::mismatch) when the bytes are not a frame.
  std::optional<Frame> next();
  // False until kNodeBegins arrives; then true, with everything that preceded it in `before`.
  bool begun(std::string& before);

 private:
  std::string buffer_;
};

}  // namespace ft
