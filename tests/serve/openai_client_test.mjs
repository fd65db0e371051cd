// SPDX-License-Identifier: Apache-2.0
// OpenAI's own JavaScript client against a running server. Arguments: base URL, key.
import assert from "node:assert/strict";
import OpenAI from "openai";

const [baseURL, apiKey] = process.argv.slice(2);
const client = new OpenAI({ baseURL, apiKey, maxRetries: 0, timeout: 60000 });
const chat = { messages: [{ role: "user", content: "What is 2 + 2?" }], max_tokens: 12, seed: 7 };

async function refused(promise, status, words) {
  try {
    await promise;
  } catch (error) {
    assert.equal(error.status, status, error.message);
    assert.match(error.message, words);
    return error;
  }
  assert.fail(`expected status ${status}`);
}

const tests = {
  async "lists its model"() {
    const models = [];
    for await (const model of client.models.list()) models.push(model.id);
    assert.equal(models.length, 1);
    assert.equal((await client.models.retrieve(models[0])).id, models[0]);
    chat.model = models[0];
  },

  async "completes, the same for the same seed"() {
    const request = { model: chat.model, prompt: "Once", max_tokens: 8, seed: 3, n: 2 };
    const a = await client.completions.create(request);
    const b = await client.completions.create(request);
    assert.equal(a.choices.length, 2);
    assert.equal(a.choices[0].text, b.choices[0].text);
    assert.equal(a.choices[1].text, b.choices[1].text);
    assert.equal(a.usage.total_tokens, a.usage.prompt_tokens + a.usage.completion_tokens);
  },

  async "echoes with logprobs, as likelihood tasks want it"() {
    const r = await client.completions.create({
      model: chat.model, prompt: [5, 6, 7, 8, 9], echo: true, logprobs: 1, max_tokens: 1,
    });
    const { tokens, token_logprobs, top_logprobs } = r.choices[0].logprobs;
    assert.ok(tokens.length >= 5);
    assert.equal(token_logprobs[0], null);
    for (const logprob of token_logprobs.slice(1)) assert.ok(logprob <= 0);
    assert.ok(Object.values(top_logprobs[1])[0] <= 0);
  },

  async "chats, streamed or not, with the same text"() {
    const whole = await client.chat.completions.create(chat);
    assert.equal(whole.choices[0].message.role, "assistant");
    let content = "", reasoning = "", usage = null, finish = null;
    const stream = await client.chat.completions.create({
      ...chat, stream: true, stream_options: { include_usage: true },
    });
    for await (const event of stream) {
      if (event.usage) usage = event.usage;
      for (const choice of event.choices) {
        content += choice.delta.content ?? "";
        reasoning += choice.delta.reasoning_content ?? "";
        finish = choice.finish_reason ?? finish;
      }
    }
    assert.equal(content, whole.choices[0].message.content ?? "");
    assert.equal(reasoning, whole.choices[0].message.reasoning_content ?? "");
    assert.equal(finish, whole.choices[0].finish_reason);
    assert.deepEqual(usage.completion_tokens, whole.usage.completion_tokens);
  },

  async "streams through the client's helper"() {
    const runner = client.chat.completions.stream({ ...chat, logprobs: true, top_logprobs: 2 });
    const final = await runner.finalChatCompletion();
    assert.ok(final.choices[0].finish_reason);
    assert.ok(final.choices[0].logprobs.content.length > 0);
  },

  async "keeps to a JSON schema"() {
    const schema = {
      type: "object", additionalProperties: false, required: ["colour", "count", "tags"],
      properties: {
        colour: { enum: ["red", "green"] },
        count: { type: "integer", minimum: 1, maximum: 99 },
        tags: { type: "array", items: { type: "string", maxLength: 4 }, maxItems: 2 },
      },
    };
    for (const seed of [1, 2, 3]) {
      const r = await client.chat.completions.create({
        ...chat, seed, max_tokens: 300, temperature: 1.5,
        chat_template_kwargs: { enable_thinking: false },
        response_format: { type: "json_schema", json_schema: { name: "thing", schema, strict: true } },
      });
      assert.equal(r.choices[0].finish_reason, "stop");
      const value = JSON.parse(r.choices[0].message.content);
      assert.ok(["red", "green"].includes(value.colour));
      assert.ok(Number.isInteger(value.count) && value.count >= 1 && value.count <= 99);
      assert.ok(value.tags.length <= 2);
    }
  },

  async "calls the tool that is asked for"() {
    const r = await client.chat.completions.create({
      ...chat, max_tokens: 300, chat_template_kwargs: { enable_thinking: false },
      tools: [{ type: "function", function: { name: "weather", parameters: { type: "object",
        properties: { days: { type: "integer", minimum: 1, maximum: 7 }, unit: { type: "string", enum: ["C", "F"] } },
        required: ["days", "unit"] } } }],
      tool_choice: { type: "function", function: { name: "weather" } },
    });
    const [call] = r.choices[0].message.tool_calls;
    assert.equal(call.function.name, "weather");
    const args = JSON.parse(call.function.arguments);
    assert.ok(args.days >= 1 && args.days <= 7);
    assert.ok(["C", "F"].includes(args.unit));
    assert.equal(r.choices[0].finish_reason, "tool_calls");
  },

  async "answers by many traces"() {
    const rsa = { n: 4, c: 2, rounds: 1, beta: 24, tau: 12 };
    const r = await client.chat.completions.create({ ...chat, max_tokens: 24, seed: 1, temperature: 1, rsa });
    assert.equal(r.choices.length, 1);
    assert.ok(r.usage.completion_tokens >= 8 && r.usage.completion_tokens <= 8 * 24);
    assert.equal(r.rsa.n, 4);
    const stream = await client.chat.completions.create({ ...chat, max_tokens: 24, seed: 1, temperature: 1, rsa, stream: true });
    let content = "", reasoning = "", report = null;
    for await (const event of stream) {
      content += event.choices[0]?.delta?.content ?? "";
      reasoning += event.choices[0]?.delta?.reasoning_content ?? "";
      report ??= event.rsa;
    }
    assert.equal(content, r.choices[0].message.content);
    assert.match(reasoning, /Round 1, trace 4: /);
    assert.deepEqual(report.votes, r.rsa.votes);
    await refused(client.chat.completions.create({ ...chat, rsa: { n: 1000 } }), 400, /rsa\.n/);
  },

  async "stops when the client does"() {
    const stream = await client.chat.completions.create({ ...chat, max_tokens: 1500, ignore_eos: true, stream: true });
    for await (const _ of stream) break;
    stream.controller.abort();
    const until = Date.now() + 20000;
    let running = 1;
    while (running > 0 && Date.now() < until) {
      running = (await (await fetch(baseURL.replace("/v1", "/health"))).json()).running;
      await new Promise((next) => setTimeout(next, 50));
    }
    assert.equal(running, 0);
  },

  async "says what is wrong"() {
    await refused(client.chat.completions.create({ ...chat, temperature: -1 }), 400, /temperature/);
    await refused(client.chat.completions.create({ ...chat, messages: [] }), 400, /messages/);
    await refused(client.chat.completions.create({ ...chat, model: "gpt-4" }), 404, /no model/);
    await refused(client.chat.completions.create({ ...chat, max_tokens: 1e6 }), 400, /room for/);
    const stranger = new OpenAI({ baseURL, apiKey: "wrong", maxRetries: 0 });
    const error = await refused(stranger.models.list(), 401, /Authorization/);
    assert.ok(error instanceof OpenAI.AuthenticationError);
  },
};

for (const [name, test] of Object.entries(tests)) {
  await test();
  console.log(`ok: ${name}`);
}
