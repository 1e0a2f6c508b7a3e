#include "app/answers/answer_out.h"

#include <unistd.h>

#include <iostream>

#include "engine/core/error.h"

namespace ft {

AnswerOut::AnswerOut(Screen& aside) : aside_(aside), terminal_(isatty(STDOUT_FILENO) != 0) {}

void AnswerOut::add(const std::string& piece) {
  if (piece.empty()) return;
  empty_ = false;
  if (!terminal_) {
    std::cout << piece << std::flush;
    return;
  }
  for (const char& c : piece) {
    if (c == '\n' || c == '\t')
      std::cout << c;
    else
      std::cout << printable({&c, 1});
  }
  std::cout << std::flush;
}

void AnswerOut::end() {
  std::cout << std::endl;
  if (empty_) aside_.line("(the answer is empty: it ended at once)");
  empty_ = true;
}

}  // namespace ft
