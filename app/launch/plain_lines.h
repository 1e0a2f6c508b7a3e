// Turns a rank's terminal output into complete lines for a file, without the live lines that were
// overwritten.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace ft {

class PlainLines {
 public:
  // Returns the lines that can no longer be overwritten.
  std::string add(std::string_view text);
  // Returns the lines that were held back; call it at the end.
  std::string rest();

 private:
  void take(char c);
  void take_sequence(char last);

  std::vector<std::string> lines_;  // complete, but may still be overwritten
  std::string line_, sequence_;     // the incomplete line; the incomplete escape sequence
  bool overwrites_ = false;         // the cursor is back in the line's first column
  bool moves_up_ = false;           // several live lines are in use
};

}  // namespace ft
