// OpenAI's API, and the chat page that uses it: the reply to each path, with answers from a desk. Many
// threads call it at once.
#pragma once
#include <atomic>
#include <functional>
#include <string>
#include <vector>

#include "app/http/origins.h"
#include "app/serve/adapter_slots.h"
#include "app/serve/answering.h"
#include "app/serve/ask.h"
#include "app/serve/desk.h"
#include "app/serve/reply.h"
#include "app/serve/voices.h"

namespace ft {

class Api {
 public:
  struct Rules {
    std::string key;           // "": no key is needed
    Origins origins;           // pages in browsers that may ask
    std::int64_t context = 0;  // tokens of prompt and answer; encoder-decoders: of the answer
    std::int64_t sources = 0;  // encoder-decoders: tokens of a source
    std::int64_t body = 0;     // bytes of a request, for messages
  };
  // A finished answer, for a log. Called by the clients' threads.
  struct Done {
    std::string model, finish;
    Usage usage;
    double seconds;
  };
  Api(const Answerer&, const VoiceList&, AdapterSlots&, Desk&, Rules,
      std::function<void(const Done&)> on_done);

  HttpReply answer(const HttpRequest&);

 private:
  HttpReply answer_or_error(const HttpRequest&);
  HttpReply route(const HttpRequest&);
  void check_caller(const HttpRequest&) const;
  void require_json(const HttpRequest&) const;
  HttpReply complete(const HttpRequest&, bool chat);
  HttpReply change_adapters(const HttpRequest&, bool load);
  VoicePtr voice(const std::string& name) const;
  // Returns the questions of a request, in the order of its answers. Adds their tokens and echoes to the
  // rules.
  QuestionList questions(Ask&, const VoicePtr&, AnsweringRules&);
  std::shared_ptr<Question> question(const Ask&, const VoicePtr&, std::vector<std::int32_t> ids,
                                     std::int64_t copy);
  std::vector<std::int32_t> conversation(Ask&, const Voice&) const;
  std::vector<std::int32_t> ids_of(const AskedText&, const Voice&) const;
  void check_ids(const std::vector<std::int32_t>&, const char* param) const;
  std::string new_id(bool chat);

  const Answerer& answerer_;
  const VoiceList& voices_;
  AdapterSlots& slots_;
  Desk& desk_;
  Rules rules_;
  std::function<void(const Done&)> on_done_;
  std::int64_t started_;  // seconds since 1970
  std::string run_;       // this run's name, in the ids of answers
  std::atomic<std::uint64_t> asked_{0}, drawn_{0};
};

}  // namespace ft
