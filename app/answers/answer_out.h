// An answer on standard output as it comes, for people and for pipes.
#pragma once
#include <string>

#include "app/screen/screen.h"

namespace ft {

class AnswerOut {
 public:
  // `aside` shows lines that are no part of the answer.
  explicit AnswerOut(Screen& aside);
  // On a terminal, control characters but line feeds and tabs are shown as \xNN. A pipe gets the bytes.
  void add(const std::string& piece);
  // The answer's line feed. Says aside that an answer is empty.
  void end();

 private:
  Screen& aside_;
  bool terminal_, empty_ = true;
};

}  // namespace ft
