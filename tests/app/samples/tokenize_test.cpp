// ft tokenize: reads a JSON value from each line and writes one line for it; a wrong line is named.
#include "app/samples/tokenize.h"

#include <gtest/gtest.h>

#include <sstream>

#include "engine/core/error.h"
#include "tests/support/source.h"

namespace ft {
namespace {

class Tokenize : public testing::Test {
 protected:
  std::string run(const std::string& input) {
    std::istringstream in(input);
    std::ostringstream out;
    tokenize(*tokenizer, options, in, out);
    return out.str();
  }
  std::string error(const std::string& input) {
    try {
      run(input);
    } catch (const UserError& e) {
      EXPECT_EQ(e.code, Exit::input);
      return e.what();
    }
    return "no error";
  }
  std::unique_ptr<Tokenizer> tokenizer = make_tokenizer(source_path("tests/data/tiny_tokenizer"));
  TokenizeOptions options;
};

TEST_F(Tokenize, TextToIds) {
  EXPECT_EQ(run("\"Ada\"\r\n\n\"\\u0041da has\""), "[1,301]\n[1,301,274]\n");
  options.no_special_tokens = true;
  EXPECT_EQ(run("\"Ada\"\n\"\"\n"), "[301]\n[]\n");
  EXPECT_EQ(run(""), "");
  const std::string text(300'000, 'x');  // longer than a block of the reader
  EXPECT_EQ(run("\"" + text + "\"\n\"Ada\"\n").substr(0, 10), "[353,123,1");
  EXPECT_TRUE(run("\"" + text + "\"\n\"Ada\"\n").ends_with("]\n[301]\n"));
}

TEST_F(Tokenize, IdsToText) {
  options.decode = true;
  EXPECT_EQ(run("[1, 301, 2]\n[]\n"), "\"<s> Ada</s>\"\n\"\"\n");
  options.skip_special_tokens = true;
  EXPECT_EQ(run("[1, 301, 2]"), "\"Ada\"\n");
}

TEST_F(Tokenize, Errors) {
  EXPECT_EQ(error("\"a\"\n5\n"), "standard input:2: must be a string in quotes, is 5");
  EXPECT_EQ(error("\"a\"\nabc\n").substr(0, 27), "standard input:2: not JSON:");
  options.decode = true;
  EXPECT_EQ(error("\"a\""), "standard input:1: must be a list of token ids, is \"a\"");
  EXPECT_EQ(error("[1, -1]"), "standard input:1: must be a list of token ids, has -1");
  EXPECT_EQ(error("[1, 2.5]"), "standard input:1: must be a list of token ids, has 2.5");
  EXPECT_EQ(error("[1, 99999999999]"), "standard input:1: must be a list of token ids, has 99999999999");
  EXPECT_EQ(error("[400]"), "standard input:1: there is no token 400; the tokenizer has 0 to 399");
}

}  // namespace
}  // namespace ft
