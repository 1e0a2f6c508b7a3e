// Writes an answer to standard output as its tokens arrive, for people and for pipes.
#pragma once
#include <string>

#include "app/screen/screen.h"

namespace ft {

class AnswerOut {
 public:
  // `aside` shows messages that are not part of the answer.
  explicit AnswerOut(Screen& aside);
  // Writes a piece of the answer. A terminal gets control characters other than line feeds and tabs as \xNN;
  // a pipe gets the bytes unchanged.
  void add(const std::string& piece);
  // Writes the line feed that ends the answer. Tells `aside` if the answer is empty.
  void end();

 private:
  Screen& aside_;
  bool terminal_, empty_ = true;
};

}  // namespace ft
