// An answer on standard output as it comes, for people and for pipes.
#pragma once
#include <string>

#include "app/screen/screen.h"

namespace ft {

class AnswerOut {
 public:
  // `aside`: where to say what is not part of the answer.
  explicit AnswerOut(Screen& aside);
  // On a terminal control characters are shown as \xNN, except line feeds and tabs; a pipe gets them as they are.
  void add(const std::string& piece);
  // The answer's line feed. Says aside that an answer is empty.
  void end();

 private:
  Screen& aside_;
  bool terminal_, empty_ = true;
};

}  // namespace ft
