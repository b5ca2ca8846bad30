-- What one process at a time does for the whole installation. Who takes a task moves `due_at` on, so that nobody else does it
-- meanwhile; `position` says where a task that goes through much in parts goes on.

CREATE TABLE maintenance_tasks (
  name text COLLATE "C" PRIMARY KEY, due_at timestamptz(3) NOT NULL DEFAULT now(), position text COLLATE "C");
