// A rank's screen as a file: whole lines, without the live lines that were drawn over.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace ft {

class PlainLines {
 public:
  // Returns the lines that nothing will draw over any more.
  std::string add(std::string_view text);
  // Returns the lines that were held back.
  std::string rest();

 private:
  void take(char c);
  void take_sequence(char last);

  std::vector<std::string> lines_;  // held back
  std::string line_, sequence_;     // under way
  bool overwrites_ = false;         // the cursor has gone back to the line's first column
  bool moves_up_ = false;           // several live lines are drawn
};

}  // namespace ft
