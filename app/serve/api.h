// OpenAI's API over a desk: what each path does. Called by many threads at once.
#pragma once
#include <atomic>
#include <functional>
#include <string>
#include <vector>

#include "app/serve/answering.h"
#include "app/serve/ask.h"
#include "app/serve/desk.h"
#include "app/serve/reply.h"
#include "app/serve/voices.h"

namespace ft {

class Api {
 public:
  struct Rules {
    std::string key;           // "": anybody may ask
    bool loopback = true;      // only requests that name this machine's own address are answered
    std::int64_t context = 0;  // tokens of a prompt and its answer; of an encoder-decoder's answer
    std::int64_t sources = 0;  // encoder-decoders: tokens of a source
    std::int64_t body = 0;     // bytes, for messages
  };
  // A finished answer, for whoever keeps a log. Called by the threads of clients.
  struct Done {
    std::string model, finish;
    Usage usage;
    double seconds;
  };
  Api(const Answerer&, const std::vector<Voice>&, Desk&, Rules, std::function<void(const Done&)> on_done);

  HttpReply answer(const HttpRequest&);

 private:
  HttpReply route(const HttpRequest&);
  void check_caller(const HttpRequest&) const;
  HttpReply complete(const HttpRequest&, bool chat);
  const Voice& voice(const std::string& name) const;
  // The questions of a request, in the order of its answers. Adds their tokens and echoes to the rules.
  QuestionList questions(Ask&, const Voice&, AnsweringRules&);
  std::shared_ptr<Question> question(const Ask&, const Voice&, std::vector<std::int32_t> ids,
                                     std::int64_t copy);
  std::vector<std::int32_t> conversation(Ask&, const Voice&) const;
  std::vector<std::int32_t> ids_of(const AskedText&, const Voice&) const;
  void check_ids(const std::vector<std::int32_t>&, const char* param) const;
  std::string new_id(bool chat);

  const Answerer& answerer_;
  const std::vector<Voice>& voices_;
  Desk& desk_;
  Rules rules_;
  std::function<void(const Done&)> on_done_;
  std::int64_t started_;  // seconds since 1970
  std::string run_;       // names this run in the ids of answers
  std::atomic<std::uint64_t> asked_{0}, drawn_{0};
};

}  // namespace ft
