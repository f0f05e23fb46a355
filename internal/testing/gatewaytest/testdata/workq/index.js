// A queue of work items with the methods, results and errors of the workq extension,
// kept in memory: the tests load it into a real gateway.
//
// An item has one owner. A claim of an item that another agent owns is answered as a
// success with the status conflict. A refusal has its text in the payload, and no error.
// An item that was claimed with a session is released when a run of that session ends.

const items = new Map();
const open = ["claimed", "in-progress", "blocked", "in-review"];
const moves = {
  claimed: ["in-progress"],
  "in-progress": ["blocked", "in-review"],
  blocked: ["in-progress"],
  "in-review": ["in-progress"],
};
const carried = {
  title: "title", squad: "squad", branch: "branch", priority: "priority",
  files: "files", scope: "scope", tags: "tags", worktree_path: "worktreePath",
};

function required(params, ...names) {
  for (const name of names) {
    if (typeof params?.[name] !== "string" || params[name].trim() === "") throw new Error(`${name} is required`);
  }
}

// owned returns an open item of the agent that asks.
function owned(params) {
  required(params, "issue_ref", "agent_id");
  const item = items.get(params.issue_ref);
  if (!item) throw new Error(`Work item not found: ${params.issue_ref}`);
  if (item.agentId !== params.agent_id) throw new Error(`Not your work item. Owned by: ${item.agentId}`);
  if (!open.includes(item.status)) throw new Error(`${params.issue_ref} is ${item.status}`);
  return item;
}

const methods = {
  claim(params) {
    required(params, "issue_ref", "agent_id");
    const was = items.get(params.issue_ref);
    if (was && open.includes(was.status) && was.agentId === params.agent_id) return { status: "already_yours", item: was };
    if (was && (open.includes(was.status) || (was.status === "done" && params.reopen !== true))) {
      return { status: "conflict", issueRef: was.issueRef, claimedBy: was.agentId, claimedAt: was.claimedAt, currentStatus: was.status };
    }
    const item = {
      title: null, squad: null, branch: null, worktreePath: null, priority: "medium", files: [], scope: [], tags: [], ...was,
      issueRef: params.issue_ref, agentId: params.agent_id, status: "claimed", blockedReason: null,
      claimedAt: new Date().toISOString(), claimedSessionKey: params.session_key ?? null,
    };
    for (const [name, member] of Object.entries(carried)) {
      if (params[name] !== undefined) item[member] = params[name];
    }
    items.set(item.issueRef, item);
    return { status: "claimed", item };
  },

  release(params) {
    const item = owned(params);
    item.status = "dropped";
    return { status: "dropped", issueRef: item.issueRef };
  },

  status(params) {
    const item = owned(params);
    const from = item.status;
    if (!moves[from].includes(params.status)) throw new Error(`Invalid transition: ${from} to ${params.status}`);
    if (params.status === "blocked") required(params, "reason");
    item.status = params.status;
    item.blockedReason = params.status === "blocked" ? params.reason : null;
    return { status: "updated", issueRef: item.issueRef, from, to: item.status };
  },

  query(params) {
    let found = [...items.values()];
    if (params.issue_ref) found = found.filter((i) => i.issueRef === params.issue_ref);
    if (params.agent_id) found = found.filter((i) => i.agentId === params.agent_id);
    if (params.active_only ?? true) found = found.filter((i) => open.includes(i.status));
    return { items: found.slice(0, params.limit ?? 50), total: found.length };
  },
};

export default {
  id: "workq",
  register(api) {
    for (const [name, method] of Object.entries(methods)) {
      api.registerGatewayMethod(`workq.${name}`, ({ params, respond }) => {
        try {
          respond(true, method(params ?? {}));
        } catch (error) {
          respond(false, { error: error.message });
        }
      });
    }
    api.on("agent_end", (_event, context) => {
      for (const item of items.values()) {
        if (context?.sessionKey && item.claimedSessionKey === context.sessionKey && ["claimed", "in-progress"].includes(item.status)) {
          item.status = "dropped";
        }
      }
    });
  },
};
