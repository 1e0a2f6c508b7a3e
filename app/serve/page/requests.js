const CHAT = "/v1/chat/completions";
const NUMBERS = ["temperature", "top_p", "top_k", "min_p", "repetition_penalty", "max_tokens", "seed"];

// Returns the path and the body of the request for an answer.
function requestFor(turn, lane, model) {
  const set = state.settings, path = set.path || CHAT, body = { model };
  if (path === CHAT) body.messages = messagesBefore(turn, lane);
  else body.prompt = state.turns[turn].user;
  for (const name of NUMBERS)
    if (set[name] !== undefined && set[name] !== "") body[name] = Number(set[name]);
  const stops = (set.stop || "").split("\n").filter(s => s !== "");
  if (stops.length) body.stop = stops;
  if (path === CHAT && set.chat_template_kwargs) body.chat_template_kwargs = JSON.parse(set.chat_template_kwargs);
  return { path, body };
}

function headers() {
  const all = { "Content-Type": "application/json" };
  if (key) all.Authorization = "Bearer " + key;
  return all;
}

class NeedsKey extends Error {}

// Throws NeedsKey, or an Error with the server's message.
async function checkReply(reply) {
  if (reply.ok) return;
  let message = reply.status + " " + reply.statusText;
  try {
    message = (await reply.json()).error.message;
  } catch (other) {
    console.warn("the error has another form", other);
  }
  throw reply.status === 401 ? new NeedsKey(message) : new Error(message);
}

async function modelNames() {
  const reply = await fetch("v1/models", { headers: headers() });
  await checkReply(reply);
  return (await reply.json()).data.map(m => m.id);
}

// Yields the JSON of a reply's server-sent events.
async function* eventsOf(reply) {
  const reader = reply.body.pipeThrough(new TextDecoderStream()).getReader();
  let held = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    held += value;
    const events = held.split("\n\n");
    held = events.pop();
    for (const event of events)
      if (event.startsWith("data: ") && event !== "data: [DONE]") yield JSON.parse(event.slice(6));
  }
}

// Streams an answer: calls onText with each new piece. Returns how it ended: {finish, usage}.
async function streamAnswer({ path, body }, signal, onText) {
  const asked = { ...body, stream: true, stream_options: { include_usage: true } };
  const reply = await fetch(path.slice(1), { method: "POST", headers: headers(), body: JSON.stringify(asked), signal });
  await checkReply(reply);
  const end = { finish: "", usage: null };
  for await (const event of eventsOf(reply)) {
    if (event.error) throw new Error(event.error.message);
    if (event.usage) end.usage = event.usage;
    const choice = event.choices[0];
    if (!choice) continue;
    const piece = choice.delta ? choice.delta.content : choice.text;
    if (piece) onText(piece);
    if (choice.finish_reason) end.finish = choice.finish_reason;
  }
  if (!end.finish) throw new Error("the server ended before the answer did");
  return end;
}

function shellQuoted(text) {
  return "'" + text.replaceAll("'", "'\\''") + "'";
}

// Returns the command that asks the same. The key stays a variable of the shell, so that it can be pasted.
function asCurl({ path, body }) {
  const lines = ["curl " + new URL(path.slice(1), location.href), "-H 'Content-Type: application/json'"];
  if (key) lines.push('-H "Authorization: Bearer $FT_API_KEY"');
  lines.push("-d " + shellQuoted(JSON.stringify(body)));
  return lines.join(" \\\n     ");
}
