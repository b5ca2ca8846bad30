-- Owners who get an integration of every agency of the deployment, also of those that are added later. The first owner always did.

ALTER TABLE owners ADD COLUMN publishes_agencies boolean NOT NULL DEFAULT false;
UPDATE owners SET publishes_agencies = true WHERE id = (SELECT id FROM owners ORDER BY id LIMIT 1);
